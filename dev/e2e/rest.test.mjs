/**
 * The HTTP side where no SDK shows it: routing, keys, status codes, error bodies, CORS, JSON dialect.
 * Each row of a table is one test; what a client sees of accounts and sessions is in session.test.mjs.
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { connect } from "node:net";
import { once } from "node:events";
import { startServer, throngOnly } from "./server.mjs";
import { basic, bearer, claimsOf, forgeToken, http, newPlayer, unique } from "./client.mjs";

let server;
let player;
before(async () => {
  server = await startServer();
  player = await newPlayer(server);
});
after(() => server?.stop());

const DEVICE = "/v2/account/authenticate/device";
const CUSTOM = "/v2/account/authenticate/custom";
const EMAIL = "/v2/account/authenticate/email";
const key = () => basic(server.serverKey);
const own = () => bearer(player.session);
const expired = () => {
  const claims = claimsOf(player.session.token);
  return bearer(forgeToken({ ...claims, exp: Math.floor(Date.now() / 1000) - 10 }));
};
const wrongKey = () => bearer(forgeToken(claimsOf(player.session.token), "another key"));
const noAlgorithm = () => {
  const head = { alg: "none", typ: "JWT" };
  return bearer(forgeToken(claimsOf(player.session.token), "", head).replace(/[^.]*$/, ""));
};
const body = (value) => JSON.stringify(value);

/** What goes in → status, code, text (undefined: any non-empty text). */
const REFUSED = [
  // Routing
  ["unknown path", "GET", "/v2/nothing", key, undefined, 404, 5, "Not Found"],
  ["unknown path outside /v2", "GET", "/other", undefined, undefined, 404, 5, "Not Found"],
  ["wrong method", "GET", DEVICE, key, undefined, 501, 12, "Method Not Allowed"],
  ["wrong method with session", "POST", "/v2/account", own, "{}", 501, 12, "Method Not Allowed"],
  // Keys and tokens
  ["no server key", "POST", DEVICE, undefined, "{}", 401, 16, "Server key required"],
  ["wrong server key", "POST", DEVICE, () => basic("wrong"), "{}", 401, 16, "Server key invalid"],
  ["bearer for a key", "POST", DEVICE, own, "{}", 401, 16, "Server key invalid"],
  ["no token", "GET", "/v2/account", undefined, undefined, 401, 16, "Auth token required"],
  ["key for a token", "GET", "/v2/account", key, undefined, 401, 16, "Auth token invalid"],
  [
    "not a token",
    "GET",
    "/v2/account",
    () => bearer("abc"),
    undefined,
    401,
    16,
    "Auth token invalid",
  ],
  ["expired token", "GET", "/v2/account", expired, undefined, 401, 16, "Auth token invalid"],
  ["foreign token", "GET", "/v2/account", wrongKey, undefined, 401, 16, "Auth token invalid"],
  ["unsigned token", "GET", "/v2/account", noAlgorithm, undefined, 401, 16, "Auth token invalid"],
  [
    "refresh token as session",
    "GET",
    "/v2/account",
    () => bearer(player.session.refresh_token),
    undefined,
    401,
    16,
    "Auth token invalid",
  ],
  // JSON
  ["malformed JSON", "POST", DEVICE, key, '{"id":', 400, 3, undefined],
  ["wrong JSON type", "POST", DEVICE, key, '{"id":{}}', 400, 3, undefined],
  ["duplicate field", "POST", DEVICE, key, '{"id":"a","id":"b"}', 400, 3, undefined],
  [
    "bad bool",
    "POST",
    `${DEVICE}?create=maybe`,
    key,
    body({ id: "0123456789" }),
    400,
    3,
    undefined,
  ],
  [
    "repeated scalar",
    "POST",
    `${DEVICE}?create=true&create=true`,
    key,
    body({ id: "0123456789" }),
    400,
    3,
    undefined,
  ],
  // Device
  ["device: none", "POST", DEVICE, key, "{}", 400, 3, "Device ID is required."],
  ["device: empty body", "POST", DEVICE, key, undefined, 400, 3, "Device ID is required."],
  [
    "device: space",
    "POST",
    DEVICE,
    key,
    body({ id: "0123456789 a" }),
    400,
    3,
    "Device ID invalid, no spaces or control characters allowed.",
  ],
  [
    "device: short",
    "POST",
    DEVICE,
    key,
    body({ id: "012345678" }),
    400,
    3,
    "Device ID invalid, must be 10-128 bytes.",
  ],
  [
    "device: long",
    "POST",
    DEVICE,
    key,
    body({ id: "x".repeat(129) }),
    400,
    3,
    "Device ID invalid, must be 10-128 bytes.",
  ],
  [
    "device: unknown, create=false",
    "POST",
    `${DEVICE}?create=false`,
    key,
    () => body({ id: unique() }),
    404,
    5,
    "User account not found.",
  ],
  [
    "device: username too long",
    "POST",
    `${DEVICE}?username=${"x".repeat(129)}`,
    key,
    () => body({ id: unique() }),
    400,
    3,
    "Username invalid, must be 1-128 bytes.",
  ],
  [
    "device: username with tab",
    "POST",
    `${DEVICE}?username=a%09b`,
    key,
    () => body({ id: unique() }),
    400,
    3,
    "Username invalid, no spaces or control characters allowed.",
  ],
  [
    "device: username taken",
    "POST",
    () => `${DEVICE}?username=${player.session.username}`,
    key,
    () => body({ id: unique() }),
    409,
    6,
    "Username is already in use.",
  ],
  // Custom
  ["custom: none", "POST", CUSTOM, key, "{}", 400, 3, "Custom ID is required."],
  [
    "custom: space",
    "POST",
    CUSTOM,
    key,
    body({ id: "a bcdef" }),
    400,
    3,
    "Custom ID invalid, no spaces or control characters allowed.",
  ],
  [
    "custom: short",
    "POST",
    CUSTOM,
    key,
    body({ id: "abcde" }),
    400,
    3,
    "Custom ID invalid, must be 6-128 bytes.",
  ],
  // Email
  ["email: none", "POST", EMAIL, key, "{}", 400, 3, "Password must be at least 8 characters long."],
  [
    "email: no password",
    "POST",
    EMAIL,
    key,
    body({ email: "someone@example.com" }),
    400,
    3,
    "Password must be at least 8 characters long.",
  ],
  [
    "email: no username either",
    "POST",
    EMAIL,
    key,
    body({ password: "12345678" }),
    400,
    3,
    "Username is required when email address is not supplied.",
  ],
  [
    "email: bad form",
    "POST",
    EMAIL,
    key,
    body({ email: "no-at.example.com", password: "12345678" }),
    400,
    3,
    "Invalid email address format.",
  ],
  [
    "email: space",
    "POST",
    EMAIL,
    key,
    body({ email: "some one@example.com", password: "12345678" }),
    400,
    3,
    "Invalid email address, no spaces or control characters allowed.",
  ],
  [
    "email: short",
    "POST",
    EMAIL,
    key,
    body({ email: "a@b.c", password: "12345678" }),
    400,
    3,
    "Invalid email address, must be 10-255 bytes.",
  ],
  [
    "email: short password",
    "POST",
    EMAIL,
    key,
    body({ email: "someone@example.com", password: "1234567" }),
    400,
    3,
    "Password must be at least 8 characters long.",
  ],
  // Refresh, logout
  [
    "refresh: none",
    "POST",
    "/v2/account/session/refresh",
    key,
    "{}",
    400,
    3,
    "Refresh token is required.",
  ],
  [
    "refresh: not a token",
    "POST",
    "/v2/account/session/refresh",
    key,
    body({ token: "abc" }),
    401,
    16,
    "Refresh token invalid or expired.",
  ],
  [
    "refresh: session token",
    "POST",
    "/v2/account/session/refresh",
    key,
    () => body({ token: player.session.token }),
    401,
    16,
    "Refresh token invalid or expired.",
  ],
  [
    "logout: bad token",
    "POST",
    "/v2/session/logout",
    own,
    body({ token: "abc" }),
    400,
    3,
    "Session token invalid.",
  ],
  [
    "logout: bad refresh token",
    "POST",
    "/v2/session/logout",
    own,
    body({ refresh_token: "abc" }),
    400,
    3,
    "Refresh token invalid.",
  ],
  // Account
  ["update: nothing", "PUT", "/v2/account", own, "{}", 400, 3, "No fields to update."],
  [
    "update: empty username",
    "PUT",
    "/v2/account",
    own,
    body({ username: "" }),
    400,
    3,
    "Username invalid, must be 1-128 bytes.",
  ],
  [
    "unlink the last",
    "POST",
    "/v2/account/unlink/custom",
    own,
    body({ id: "0123456789" }),
    403,
    7,
    "Cannot unlink last account identifier. Check profile exists and is not last link.",
  ],
  // Users, matches
  [
    "users: bad id",
    "GET",
    "/v2/user?ids=abc",
    own,
    undefined,
    400,
    3,
    "ID 'abc' is not a valid system ID.",
  ],
  [
    "matches: limit 0",
    "GET",
    "/v2/match?limit=0",
    own,
    undefined,
    400,
    3,
    "Invalid limit - limit must be between 1 and 100.",
  ],
  [
    "matches: limit 101",
    "GET",
    "/v2/match?limit=101",
    own,
    undefined,
    400,
    3,
    "Invalid limit - limit must be between 1 and 100.",
  ],
  ["matches: limit not a number", "GET", "/v2/match?limit=x", own, undefined, 400, 3, undefined],
  [
    "matches: label of relayed",
    "GET",
    "/v2/match?authoritative=false&label=x",
    own,
    undefined,
    400,
    3,
    "Label filtering is not supported for non-authoritative matches.",
  ],
  [
    "matches: query of relayed",
    "GET",
    "/v2/match?authoritative=false&query=x",
    own,
    undefined,
    400,
    3,
    "Query filtering is not supported for non-authoritative matches.",
  ],
  [
    "matches: negative size",
    "GET",
    "/v2/match?min_size=-1",
    own,
    undefined,
    400,
    3,
    "Minimum size must be 0 or above.",
  ],
  [
    "matches: sizes crossed",
    "GET",
    "/v2/match?min_size=3&max_size=2",
    own,
    undefined,
    400,
    3,
    "Maximum size must be greater than or equal to minimum size when both are specified.",
  ],
];

const valueOf = (given) => (typeof given === "function" ? given() : given);

describe("refused requests", () => {
  for (const [name, method, path, headers, sent, status, code, text] of REFUSED) {
    test(name, async () => {
      const answer = await http(server, method, valueOf(path), {
        headers: { ...headers?.(), "content-type": "application/json" },
        body: valueOf(sent),
      });
      assert.equal(answer.status, status, answer.text);
      assert.equal(answer.headers.get("content-type"), "application/json");
      assert.deepEqual(Object.keys(answer.json).sort(), ["code", "message"]);
      assert.equal(answer.json.code, code);
      if (text === undefined) assert.notEqual(answer.json.message, "");
      else assert.equal(answer.json.message, text);
      if (status === 401) assert.equal(answer.headers.get("www-authenticate"), text);
    });
  }
});

describe("plain requests", () => {
  test("GET / is empty and 200", async () => {
    const answer = await http(server, "GET", "/");
    assert.equal(answer.status, 200);
    assert.equal(answer.text, "");
  });

  test("health check needs no key", async () => {
    const answer = await http(server, "GET", "/healthcheck");
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.json, {});
  });

  test("answers are JSON and must not be stored", async () => {
    const answer = await http(server, "GET", "/v2/account", { headers: own() });
    assert.equal(answer.headers.get("content-type"), "application/json");
    assert.match(answer.headers.get("cache-control"), /no-store/);
  });

  test("the password part of the server key is ignored", async () => {
    const answer = await http(server, "POST", DEVICE, {
      headers: { authorization: `Basic ${btoa(`${server.serverKey}:whatever`)}` },
      body: body({ id: unique() }),
    });
    assert.equal(answer.status, 200, answer.text);
  });

  test("URLs that end in ? or & are tolerated", async () => {
    for (const tail of ["?", "?create=true&", "?&create=true"]) {
      const answer = await http(server, "POST", DEVICE + tail, {
        headers: key(),
        body: body({ id: unique() }),
      });
      assert.equal(answer.status, 200, tail + answer.text);
    }
  });

  test("bools may be written in every form", async () => {
    for (const yes of ["1", "t", "T", "true", "TRUE", "True"]) {
      const answer = await http(server, "POST", `${DEVICE}?create=${yes}`, {
        headers: key(),
        body: body({ id: unique() }),
      });
      assert.equal(answer.status, 200, yes);
      assert.equal(answer.json.created, true);
    }
    for (const no of ["0", "f", "F", "false", "FALSE", "False"]) {
      const answer = await http(server, "POST", `${DEVICE}?create=${no}`, {
        headers: key(),
        body: body({ id: unique() }),
      });
      assert.equal(answer.status, 404, no);
    }
  });

  test("fields come in both spellings, unknown ones are ignored, output is snake_case", async () => {
    const fresh = await newPlayer(server);
    const update = await http(server, "PUT", "/v2/account", {
      headers: bearer(fresh.session),
      body: body({
        displayName: "Some One",
        lang_tag: "de",
        unheard_of: [1, { a: 2 }],
        location: null,
      }),
    });
    assert.equal(update.status, 200, update.text);
    assert.deepEqual(update.json, {});
    const { json } = await http(server, "GET", "/v2/account", { headers: bearer(fresh.session) });
    assert.equal(json.user.display_name, "Some One");
    assert.equal(json.user.lang_tag, "de");
    assert.ok(!("location" in json.user), "an empty field is left out");
  });

  test("a fresh account has this shape and no more", async () => {
    const id = unique();
    const signedUp = await http(server, "POST", DEVICE, { headers: key(), body: body({ id }) });
    assert.deepEqual(Object.keys(signedUp.json).sort(), ["created", "refresh_token", "token"]);
    const { json } = await http(server, "GET", "/v2/account", {
      headers: bearer(signedUp.json.token),
    });
    const { user } = json;
    assert.deepEqual(json, { user, wallet: "{}", devices: [{ id }] });
    const { uid, usn } = claimsOf(signedUp.json.token);
    const { create_time, update_time } = user;
    assert.deepEqual(user, {
      id: uid,
      username: usn,
      lang_tag: "en",
      metadata: "{}",
      create_time,
      update_time,
    });
    assert.match(create_time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
    assert.ok(Math.abs(Date.parse(create_time) - Date.now()) < 60_000);
    assert.match(usn, /^[a-zA-Z]{10}$/);
    const again = await http(server, "POST", DEVICE, { headers: key(), body: body({ id }) });
    assert.deepEqual(
      Object.keys(again.json).sort(),
      ["refresh_token", "token"],
      "created only when it is",
    );
  });

  test("list calls answer with {} when there is nothing", async () => {
    const answer = await http(server, "GET", "/v2/user", { headers: own() });
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.json, {});
  });

  test("a username that is taken cannot be updated to", async () => {
    const other = await newPlayer(server);
    const answer = await http(server, "PUT", "/v2/account", {
      headers: bearer(other.session),
      body: body({ username: player.session.username }),
    });
    assert.equal(answer.status, 400);
    assert.equal(answer.json.code, 3);
    assert.match(answer.json.message, /Username is already in use\./);
  });
});

describe("features that are not built yet", throngOnly, () => {
  const UUID = "11111111-2222-4333-8444-555555555555";
  const ROWS = [
    ["POST", "/v2/friend/steam"],
    ["POST", "/v2/group"],
    ["GET", "/v2/leaderboard/any"],
    ["GET", `/v2/tournament/any/owner/${UUID}`],
    ["GET", "/v2/channel/2...room"],
    ["GET", "/v2/party"],
    ["POST", "/v2/iap/purchase/apple"],
    ["POST", "/v2/account/authenticate/steam"],
  ];
  for (const [method, path] of ROWS) {
    test(`${method} ${path} says so`, async () => {
      const headers = path.includes("authenticate") ? key() : own();
      const answer = await http(server, method, path, {
        headers,
        body: method === "POST" ? "{}" : undefined,
      });
      assert.equal(answer.status, 501, answer.text);
      assert.equal(answer.json.code, 12);
      assert.match(answer.json.message, /not implemented in throng yet/);
    });
  }
});

describe("CORS", () => {
  test("preflight", async () => {
    const answer = await http(server, "OPTIONS", DEVICE, {
      headers: {
        origin: "https://game.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
      },
    });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.headers.get("access-control-allow-origin"), "*");
    const allowed = answer.headers.get("access-control-allow-headers").toLowerCase().split(/, */);
    assert.ok(
      allowed.includes("authorization") && allowed.includes("content-type"),
      String(allowed),
    );
  });

  test("preflight of PUT and DELETE", async () => {
    for (const method of ["PUT", "DELETE"]) {
      const answer = await http(server, "OPTIONS", "/v2/account", {
        headers: { origin: "https://game.example", "access-control-request-method": method },
      });
      assert.equal(answer.status, 200, method);
      assert.match(answer.headers.get("access-control-allow-methods") ?? "", new RegExp(method));
    }
  });

  test("answers and errors may be read from any origin", async () => {
    for (const path of ["/healthcheck", "/v2/account", "/v2/rpc/none?http_key=wrong"]) {
      const answer = await http(server, "GET", path, {
        headers: { origin: "https://game.example" },
      });
      assert.equal(answer.headers.get("access-control-allow-origin"), "*", path);
    }
  });
});

describe("HTTP", () => {
  /** Writes bytes on a connection of its own, in the given pieces; gives all that came back. */
  const exchange = async (pieces) => {
    const socket = connect(Number(server.port), server.host).setNoDelay(true);
    await once(socket, "connect");
    let answer = "";
    socket.setEncoding("latin1").on("data", (text) => (answer += text));
    for (const piece of pieces) {
      await new Promise((written) => socket.write(piece, written));
    }
    await once(socket, "close");
    return answer;
  };
  const count = (text) => text.match(/HTTP\/1\.1 200/g)?.length ?? 0;
  const get = "GET /healthcheck HTTP/1.1\r\nHost: x\r\n\r\n";
  const last = "GET /healthcheck HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

  test("a connection is used again, requests may come in a pipeline", async () => {
    assert.equal(count(await exchange([get + get + get + last])), 4);
  });

  test("a request may come in small pieces", async () => {
    assert.equal(count(await exchange((get + last).split(""))), 2);
  });

  test("a chunked body is read", async () => {
    const id = unique();
    const text = body({ id });
    const chunk = (part) => `${part.length.toString(16)}\r\n${part}\r\n`;
    const answer = await exchange([
      `POST ${DEVICE} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: ${key().authorization}\r\n` +
        `Transfer-Encoding: chunked\r\n\r\n${chunk(text.slice(0, 7))}${chunk(text.slice(7))}0\r\n\r\n`,
    ]);
    assert.equal(count(answer), 1, answer);
    assert.match(answer, /"created":\s*true/);
  });

  test("a body over the limit is refused and costs only its sender", async () => {
    const answer = await http(server, "POST", DEVICE, {
      headers: { ...key(), "content-type": "application/json" },
      body: body({ id: unique(), vars: { long: "x".repeat(300_000) } }),
    });
    assert.equal(answer.status, 400, answer.text);
    assert.deepEqual(answer.json, { code: 3, message: "http: request body too large" });
    assert.equal((await http(server, "GET", "/healthcheck")).status, 200);
  });
});
