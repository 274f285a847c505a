/**
 * Lua functions called by clients: over HTTP with a session and with the HTTP key, wrapped and unwrapped, by GET,
 * and over the socket; their errors, their context, and what a script can and cannot reach.
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { createHash, createHmac } from "node:crypto";
import { startServer } from "./server.mjs";
import {
  basic,
  bearer,
  claimsOf,
  clientOf,
  closedWith,
  forgeToken,
  FORMATS,
  http,
  newPlayer,
  newSocketPlayer,
  RawSocket,
  refusal,
  unique,
} from "./client.mjs";

let server;
let player;
before(async () => {
  server = await startServer();
  player = await newPlayer(server, { vars: { colour: "blue" } });
});
after(() => server?.stop());

const call = (id, { query = "", method = "POST", headers, body } = {}) =>
  http(server, method, `/v2/rpc/${id}${query}`, {
    headers: headers ?? bearer(player.session),
    body,
  });
const withKey = (rest = "") => `?http_key=${server.httpKey}${rest}`;
/** Calls a function with a value and gives its decoded answer. */
const run = async (id, input = {}) => (await player.client.rpc(player.session, id, input)).payload;

describe("nakama-js", () => {
  test("echo over HTTP, with text of every kind", async () => {
    const input = {
      text: '<b>&"é日本🎮\\ \u2028\u0001',
      list: [1, 2.5, null, true],
      nested: { a: {} },
    };
    assert.deepEqual(await run("e2e_echo", input), input);
  });

  test("the echo module of the repository", async () => {
    assert.deepEqual(await run("echo", { ping: 1 }), { ping: 1 });
  });

  test("http key from a server that has no session", async () => {
    const answer = await clientOf(server).rpcHttpKey(server.httpKey, "e2e_context");
    assert.equal(answer.payload.execution_mode, "rpc");
    assert.ok(!answer.payload.user_id);
  });

  test("a large payload goes both ways", async () => {
    const input = { text: "0123456789abcdef".repeat(12_000) };
    assert.deepEqual(await run("e2e_echo", input), input);
  });

  test("many calls at once", async () => {
    const inputs = Array.from({ length: 64 }, (_, n) => ({ n }));
    const answers = await Promise.all(inputs.map((input) => run("e2e_echo", input)));
    assert.deepEqual(answers, inputs);
  });
});

describe("payload encodings", () => {
  const ROWS = [
    // name, query, method, body → payload text seen by the function
    ["a JSON string is unpacked", "", "POST", JSON.stringify('{"a":1}'), '{"a":1}'],
    ["escapes are unpacked", "", "POST", '"\\u00e9\\n\\"x\\""', 'é\n"x"'],
    ["an empty body is an empty payload", "", "POST", "", ""],
    ["null is an empty payload", "", "POST", "null", ""],
    ["spaces around the string", "", "POST", ' "x" ', "x"],
    ["unwrap hands the body over as it is", "?unwrap", "POST", '{"a":1}', '{"a":1}'],
    ["unwrap with a value", "?unwrap=false", "POST", '{"a": 1}', '{"a": 1}'],
    ["GET has no payload", "", "GET", undefined, ""],
  ];
  for (const [name, query, method, body, payload] of ROWS) {
    test(name, async () => {
      const answer = await call("e2e_context", { query, method, body });
      assert.equal(answer.status, 200, answer.text);
      const seen = query.startsWith("?unwrap") ? answer.json : JSON.parse(answer.json.payload);
      assert.equal(seen.payload ?? "", payload);
    });
  }

  test("the wrapped answer has a payload and no id", async () => {
    const answer = await call("e2e_echo", { body: '"x"' });
    assert.equal(answer.headers.get("content-type"), "application/json");
    assert.deepEqual(answer.json, { payload: "x" });
    const nothing = await call("e2e_nothing", { body: '"x"' });
    assert.deepEqual(nothing.json, { payload: "" });
  });

  test("the wrapped answer escapes markup", async () => {
    const answer = await call("e2e_markup");
    assert.match(answer.text, /\\u003cb\\u003e\\u0026/);
    assert.equal(JSON.parse(answer.json.payload).text, '<b>&"é日本🎮</b>');
  });

  test("the unwrapped answer is the text itself, in the type of the request", async () => {
    const plain = await call("e2e_echo", { query: "?unwrap", body: "<a>" });
    assert.equal(plain.text, "<a>");
    const headers = { ...bearer(player.session), "content-type": "application/json" };
    const json = await call("e2e_echo", { query: "?unwrap", headers, body: '{"a":1}' });
    assert.equal(json.headers.get("content-type"), "application/json");
    assert.equal(json.text, '{"a":1}');
  });

  test("ids do not depend on case", async () => {
    for (const id of ["e2e_mixedcase", "E2E_MixedCase", "E2E_MIXEDCASE"]) {
      assert.deepEqual((await call(id, { body: '"x"' })).json, { payload: "x" });
    }
  });
});

describe("keys", () => {
  test("the http key in the query or as a user name", async () => {
    const byQuery = await call("e2e_context", {
      query: withKey("&unwrap&a=1&a=2"),
      headers: {},
      body: "{}",
    });
    assert.equal(byQuery.status, 200, byQuery.text);
    assert.deepEqual(byQuery.json.query_params.a, ["1", "2"]);
    assert.ok(!("http_key" in byQuery.json.query_params), "the key is not shown to scripts");
    const byName = await call("e2e_context", {
      query: "?unwrap",
      headers: basic(server.httpKey),
      body: "{}",
    });
    assert.equal(byName.status, 200, byName.text);
  });

  test("the context of a session", async () => {
    const seen = await run("e2e_context");
    assert.equal(seen.user_id, player.session.user_id);
    assert.equal(seen.username, player.session.username);
    assert.deepEqual(seen.vars, { colour: "blue" });
    assert.equal(seen.execution_mode, "rpc");
    assert.ok(!seen.session_id);
  });

  const expired = () =>
    bearer(
      forgeToken({ ...claimsOf(player.session.token), exp: Math.floor(Date.now() / 1000) - 1 }),
    );
  const ROWS = [
    [
      "wrong key in the query",
      "e2e_echo",
      "?http_key=wrong",
      () => ({}),
      '"x"',
      401,
      16,
      "HTTP key invalid",
    ],
    [
      "wrong key in the header",
      "e2e_echo",
      "",
      () => basic("wrong"),
      '"x"',
      401,
      16,
      "HTTP key invalid",
    ],
    ["a bad token", "e2e_echo", "", () => bearer("abc"), '"x"', 401, 16, "Auth token invalid"],
    ["an expired token", "e2e_echo", "", expired, '"x"', 401, 16, "Auth token invalid"],
    ["nothing", "e2e_echo", "", () => ({}), '"x"', 401, 16, "Auth token or HTTP key required"],
    [
      "unknown function",
      "no_such_function",
      "",
      undefined,
      '"x"',
      404,
      5,
      "RPC function not found",
    ],
    ["an object where a string is due", "e2e_echo", "", undefined, '{"a":1}', 400, 3, undefined],
  ];
  for (const [name, id, query, headers, body, status, code, text] of ROWS) {
    test(name, async () => {
      const answer = await call(id, { query, headers: headers?.(), body });
      assert.equal(answer.status, status, answer.text);
      assert.equal(answer.headers.get("content-type"), "application/json");
      assert.equal(answer.json.code, code);
      assert.equal(answer.json.error, answer.json.message);
      if (text) assert.equal(answer.json.message, text);
    });
  }

  test("a body over the limit", async () => {
    const answer = await call("e2e_echo", { query: "?unwrap", body: "x".repeat(300_000) });
    assert.equal(answer.status, 400);
    assert.deepEqual(answer.json, { code: 3, message: "http: request body too large" });
  });

  test("another method", async () => {
    const answer = await call("e2e_echo", { method: "PUT", body: '"x"' });
    assert.equal(answer.status, 501, answer.text);
    assert.equal(answer.json.code, 12);
  });
});

describe("errors of functions", () => {
  const ROWS = [
    [1, 499],
    [2, 500],
    [3, 400],
    [4, 504],
    [5, 404],
    [6, 409],
    [7, 403],
    [8, 429],
    [9, 400],
    [10, 409],
    [11, 400],
    [12, 501],
    [13, 500],
    [14, 503],
    [15, 500],
    [16, 401],
  ];
  for (const [code, status] of ROWS) {
    test(`code ${code} is status ${status}`, async () => {
      const answer = await call("e2e_fail", {
        query: "?unwrap",
        body: JSON.stringify({ message: "no", code }),
      });
      assert.equal(answer.status, status, answer.text);
      assert.equal(answer.json.code, code);
      assert.equal(answer.json.message, "no");
    });
  }

  test("a code outside the range is 13", async () => {
    const answer = await call("e2e_fail", {
      query: "?unwrap",
      body: JSON.stringify({ message: "no", code: 99 }),
    });
    assert.equal(answer.status, 500);
    assert.equal(answer.json.code, 13);
  });

  test("a plain error is 13, without the place in the script", async () => {
    const answer = await call("e2e_throw");
    assert.equal(answer.status, 500);
    assert.equal(answer.json.code, 13);
    assert.deepEqual(answer.json, { code: 13, error: {}, message: "the script gave up" });
  });

  test("a wrong type of answer", async () => {
    const answer = await call("e2e_wrong_type");
    assert.equal(answer.status, 500);
    assert.equal(
      answer.json.message,
      "Runtime function returned invalid data - only allowed one return value of type String/Byte.",
    );
  });

  test("nakama-js throws the response", async () => {
    const response = await player.client
      .rpc(player.session, "e2e_throw", {})
      .catch((error) => error);
    assert.equal(response.status, 500);
    assert.equal((await response.json()).message, "the script gave up");
  });
});

describe("over the socket", () => {
  for (const format of FORMATS) {
    test(`${format}: echo, empty, error, unknown, context`, async () => {
      const { socket, session, leave } = await newSocketPlayer(server, {
        format,
        vars: { a: "b" },
      });
      assert.equal((await socket.rpc("e2e_echo", '{"x":"é🎮"}')).payload, '{"x":"é🎮"}');
      assert.equal((await socket.rpc("E2E_echo", "x")).payload, "x");
      assert.equal((await socket.rpc("e2e_nothing", "x")).payload || "", "");
      const error = (id, payload) => socket.rpc(id, payload).then(assert.fail, (e) => e);
      assert.deepEqual(
        { ...(await error("e2e_throw")), context: {} },
        { code: 7, message: "the script gave up", context: {} },
      );
      assert.deepEqual(
        { ...(await error("e2e_fail", '{"message":"no","code":3}')), context: {} },
        { code: 7, message: "no", context: {} },
      );
      assert.deepEqual(
        { ...(await error("no_such_function")), context: {} },
        { code: 6, message: "RPC function not found", context: {} },
      );
      assert.deepEqual(
        { ...(await error("")), context: {} },
        { code: 3, message: "RPC ID must be set", context: {} },
      );
      const seen = JSON.parse((await socket.rpc("e2e_context", "{}")).payload);
      assert.equal(seen.user_id, session.user_id);
      assert.match(seen.session_id, /^[0-9a-f-]{36}$/);
      assert.equal(seen.lang, "en");
      assert.deepEqual(seen.vars, { a: "b" });
      leave();
    });
  }

  test("shape of the answer on the wire", async () => {
    const raw = await RawSocket.open(server, player.session.token);
    assert.deepEqual(await raw.request({ rpc: { id: "e2e_echo", payload: "{}" } }), {
      cid: "1",
      rpc: { id: "e2e_echo", payload: "{}" },
    });
    assert.deepEqual(await raw.request({ rpc: { id: "e2e_nothing" } }), {
      cid: "2",
      rpc: { id: "e2e_nothing" },
    });
    raw.close();
  });
});

describe("what a script can do", () => {
  test("encodings and digests", async () => {
    const text = "throng é";
    const bytes = Buffer.from(text);
    assert.deepEqual(await run("e2e_digest", { text }), {
      base64: bytes.toString("base64"),
      base16: bytes.toString("hex"),
      md5: createHash("md5").update(bytes).digest("hex"),
      sha256: createHash("sha256").update(bytes).digest("hex"),
      hmac: createHmac("sha256", "key").update(bytes).digest("base64"),
      uuid_length: 36,
      bits: 8,
    });
  });

  test("storage: what was written is read, its version is its MD5", async () => {
    const value = { level: 3, name: "é", nested: { list: [1, 2, 3] } };
    const key = unique();
    const seen = await run("e2e_storage", { key, value });
    assert.deepEqual(seen.value, value);
    assert.deepEqual(seen.ack, { collection: "e2e", key, version: seen.version });
    assert.match(seen.version, /^[0-9a-f]{32}$/);
  });

  test("the machine is out of reach, changed libraries are the call's own", async () => {
    assert.deepEqual(await run("e2e_globals"), {
      io: "nil",
      debug: "nil",
      os_execute: "nil",
      os_time: "function",
      loads_libraries: false,
      changes_libraries: true, // In throng until the call ends, see docs/lua/state.md.
      sets_globals: true,
    });
  });
});

/** What a hook kept for this session's user under this key, as text. */
const seenBy = async (session, key) => {
  const answer = await http(server, "POST", "/v2/rpc/e2e_hook_seen?unwrap", {
    headers: bearer(session),
    body: key,
  });
  assert.equal(answer.status, 200, answer.text);
  return answer.text === "null" ? undefined : answer.text;
};
/** The same for hooks that nobody waits for. */
const seenInTime = async (session, key) => {
  for (let tries = 0; tries < 500; tries++) {
    const text = await seenBy(session, key);
    if (text) return JSON.parse(text);
  }
  assert.fail(`no hook kept ${key}`);
};

describe("hooks", () => {
  test("before an HTTP call: change, refuse, block", async () => {
    const client = clientOf(server);
    const renamed = await client.authenticateCustom("e2e-hook-renamed", true);
    assert.equal(
      (await client.authenticateCustom("e2e-hook-new-name", false)).user_id,
      renamed.user_id,
    );
    assert.deepEqual(await refusal(client.authenticateCustom(unique(), true, "e2e-hook-refused")), {
      status: 403,
      code: 7,
      message: "this name is refused",
    });
    assert.deepEqual(await refusal(client.authenticateCustom(unique(), true, "e2e-hook-blocked")), {
      status: 404,
      code: 5,
      message: "Requested resource was not found.",
    });
  });

  test("before an HTTP call: what is no request, and calls without a request", async () => {
    const client = clientOf(server);
    assert.deepEqual(await refusal(client.authenticateCustom(unique(), true, "e2e-hook-broken")), {
      status: 500,
      code: 13,
      message: "Could not complete runtime Before function.",
    });
    const session = await client.authenticateCustom(unique(), true, unique(), { hooked: "refuse" });
    assert.deepEqual(await refusal(client.getAccount(session)), {
      status: 400,
      code: 9,
      message: "no account for you",
    });
    assert.ok((await client.getAccount(player.session)).user.id, "others are let through");
  });

  test("after an HTTP call: seen before the answer, errors reach nobody", async () => {
    const client = clientOf(server);
    const [id, name] = [unique(), unique()];
    const session = await client.authenticateCustom(id, true, name, { hooked: "yes" });
    const seen = async (key) => JSON.parse((await seenBy(session, key)) ?? "null");
    assert.deepEqual(await seen("authenticate"), {
      mode: "after",
      username: name,
      has_session: false,
      has_token: true,
      created: true,
      request: { account: { id, vars: { hooked: "yes" } }, create: true, username: name },
    });
    assert.equal((await client.getAccount(session)).custom_id, id);
    assert.deepEqual(await seen("account"), {
      mode: "after",
      username: name,
      has_session: false,
      custom_id: id,
      request_empty: true,
    });
    // The hook raises the limit beyond what is allowed.
    assert.equal((await refusal(client.listMatches(session, 7, false, "x", 0, 3))).code, 3);
    assert.deepEqual((await seen("list")).payload, {
      limit: 7,
      authoritative: false,
      label: "x",
      min_size: 0,
      max_size: 3,
    });
  });

  test("before and after socket messages", async () => {
    for (const format of FORMATS) {
      const { socket, session, leave } = await newSocketPlayer(server, {
        format,
        vars: { hooked: "yes" },
      });
      const match = await socket.createMatch("e2e-hook-after");
      const created = await seenInTime(session, "match");
      assert.equal(created.mode, "after");
      assert.equal(created.has_session, true);
      // The protobuf adapter does not know that matches have names.
      const sent = format === "json" ? { name: "e2e-hook-after" } : {};
      assert.deepEqual(created.request.match_create, sent);
      assert.equal(created.out.match.match_id, match.match_id);
      assert.equal(created.out.cid, created.request.cid);

      const other = await newSocketPlayer(server, { format });
      const received = new Promise((resolve) => (other.socket.onmatchdata = resolve));
      await other.socket.joinMatch(match.match_id);
      await socket.sendMatchState(match.match_id, 1007, "data");
      const data = await received;
      assert.equal(Number(data.op_code), 1008);
      assert.equal(new TextDecoder().decode(data.data), "changed");
      other.leave();

      await socket.leaveMatch(match.match_id);
      const left = await seenInTime(session, "leave");
      assert.deepEqual(left.out, { cid: left.request.cid });
      assert.deepEqual(left.request.match_leave, { match_id: match.match_id });

      const gone = "00000000-0000-4000-8000-000000000000.";
      await socket.joinMatch(gone).then(assert.fail, (error) => assert.equal(error.code, 4));
      const again = await socket.createMatch("e2e-hook-join");
      await socket.leaveMatch(again.match_id);
      assert.equal(JSON.parse((await seenBy(session, "join")) ?? "null"), null);
      leave();
    }
  });

  test("before a socket message: what is no message is refused", async () => {
    const raw = await RawSocket.open(server, player.session.token);
    const broken = await raw.request({ match_create: { name: "e2e-hook-other" } });
    assert.deepEqual(broken.error, {
      code: 7,
      message: "Could not complete runtime Before function.",
    });
    assert.ok((await raw.request({ ping: {} })).pong);
    raw.close();
  });

  test("before a socket message: refuse keeps the socket, block closes it", async () => {
    const raw = await RawSocket.open(server, player.session.token);
    const refused = await raw.request({ match_create: { name: "e2e-hook-refused" } });
    assert.deepEqual(refused.error, { code: 7, message: "this match is refused" });
    raw.send({ cid: "b", match_create: { name: "e2e-hook-blocked" } });
    await closedWith(raw, "error processing message", {
      code: 1,
      message: "Requested resource was not found.",
    });
  });
});
