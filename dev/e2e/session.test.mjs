/**
 * Accounts and sessions through the released nakama-js: every way in that needs no foreign service, token
 * contents, refresh, logout, expiry, link and unlink, profile, users. Bare error bodies are in rest.test.mjs.
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { Session } from "@heroiclabs/nakama-js";
import { isExternal, startServer, throngOnly } from "./server.mjs";
import {
  basic,
  bearer,
  claimsOf,
  clientOf,
  forgeToken,
  http,
  newPlayer,
  openSocket,
  refusal,
  tenSecondsOlder,
  unique,
  until,
} from "./client.mjs";

let server;
let client;
before(async () => {
  server = await startServer();
  client = clientOf(server);
});
after(() => server?.stop());

const email = () => `${unique()}@Example.com`;
const PASSWORD = "correct horse";

describe("authenticate", () => {
  const WAYS = [
    ["device", (id, create, name) => client.authenticateDevice(id, create, name)],
    ["custom", (id, create, name) => client.authenticateCustom(id, create, name)],
    [
      "email",
      (id, create, name) => client.authenticateEmail(`${id}@example.com`, PASSWORD, create, name),
    ],
  ];
  for (const [name, enter] of WAYS) {
    test(`${name}: register, come back, be unknown`, async () => {
      const id = unique();
      const first = await enter(id, true, `${id}-name`);
      assert.equal(first.created, true);
      assert.equal(first.username, `${id}-name`);
      const again = await enter(id, true, "ignored");
      assert.equal(again.created, false);
      assert.equal(again.user_id, first.user_id);
      assert.equal(again.username, first.username);
      const unknown = await refusal(enter(unique(), false));
      assert.deepEqual(unknown, { status: 404, code: 5, message: "User account not found." });
    });
  }

  test("email: any case, wrong password, login by username", async () => {
    const address = email();
    const username = unique();
    const first = await client.authenticateEmail(address, PASSWORD, true, username);
    const lower = await client.authenticateEmail(address.toLowerCase(), PASSWORD);
    assert.equal(lower.user_id, first.user_id);
    const wrong = await refusal(client.authenticateEmail(address, "wrong password", true));
    assert.deepEqual(wrong, { status: 401, code: 16, message: "Invalid credentials." });
    const byName = await client.authenticateEmail("", PASSWORD, true, username);
    assert.equal(byName.user_id, first.user_id);
    const noName = await refusal(client.authenticateEmail("", PASSWORD, true, unique()));
    assert.equal(noName.status, 404);
    const account = await client.getAccount(first);
    assert.equal(account.email, address.toLowerCase());
  });

  test("a wrong server key is refused", async () => {
    const refused = await refusal(clientOf(server, { key: "wrong" }).authenticateDevice(unique()));
    assert.deepEqual(refused, { status: 401, code: 16, message: "Server key invalid" });
  });

  test("a username is taken once, also when two ask at the same moment", async () => {
    const username = unique();
    const outcomes = await Promise.allSettled(
      Array.from({ length: 8 }, () => client.authenticateDevice(unique(), true, username)),
    );
    const won = outcomes.filter((o) => o.status === "fulfilled");
    assert.equal(won.length, 1);
    for (const { reason } of outcomes.filter((o) => o.status === "rejected")) {
      assert.equal(reason.status, 409);
      assert.deepEqual(await reason.json(), { code: 6, message: "Username is already in use." });
    }
  });

  test("the same device registers once, also when eight ask at the same moment", async () => {
    const id = unique();
    const outcomes = await Promise.allSettled(
      Array.from({ length: 8 }, () => client.authenticateDevice(id, true)),
    );
    const sessions = outcomes.filter((o) => o.status === "fulfilled").map((o) => o.value);
    assert.equal(sessions.filter((s) => s.created).length, 1);
    assert.equal(new Set(sessions.map((s) => s.user_id)).size, 1);
    // Nakama fails those whose transaction came second.
    if (!isExternal) assert.equal(sessions.length, outcomes.length);
    assert.equal((await client.authenticateDevice(id, false)).user_id, sessions[0].user_id);
  });

  test("a plain space in a username is accepted", async () => {
    const username = `${unique()} the first`;
    assert.equal((await client.authenticateDevice(unique(), true, username)).username, username);
  });
});

describe("tokens", () => {
  test("claims, lifetime and vars", async () => {
    const { session } = await newPlayer(server, { vars: { region: "eu", device: "日本" } });
    const token = claimsOf(session.token);
    const refresh = claimsOf(session.refresh_token);
    assert.deepEqual(Object.keys(token).sort(), ["exp", "iat", "tid", "uid", "usn", "vrs"]);
    assert.deepEqual({ ...token, exp: 0 }, { ...refresh, exp: 0 });
    assert.ok(refresh.exp > token.exp && token.exp > token.iat);
    assert.ok(Math.abs(token.iat - Date.now() / 1000) < 60);
    const vars = JSON.parse(Buffer.from(session.token.split(".")[1], "base64url")).vrs;
    assert.deepEqual(vars, { region: "eu", device: "日本" });
    assert.deepEqual(JSON.parse(Buffer.from(session.token.split(".")[0], "base64url")), {
      alg: "HS256",
      typ: "JWT",
    });
    const plain = await newPlayer(server);
    assert.ok(!("vrs" in claimsOf(plain.session.token)), "no vars, no claim");
  });

  test("the default key signs: a token made outside is as good", async () => {
    const { session } = await newPlayer(server);
    const own = forgeToken({ ...claimsOf(session.token), exp: Math.floor(Date.now() / 1000) + 60 });
    assert.equal((await client.getAccount(Session.restore(own, ""))).user.id, session.user_id);
  });

  test("refresh keeps tid and iat, and the old refresh token", async () => {
    const { session } = await newPlayer(server, { vars: { kept: "yes" } });
    const before = { ...claimsOf(session.token) };
    const oldRefresh = session.refresh_token;
    for (let round = 0; round < 2; round += 1) {
      const refreshed = await client.sessionRefresh(Session.restore(session.token, oldRefresh));
      for (const part of [refreshed.token, refreshed.refresh_token]) {
        const claims = claimsOf(part);
        assert.equal(claims.tid, before.tid);
        assert.equal(claims.iat, before.iat);
        assert.deepEqual(claims.vrs, { kept: "yes" });
      }
      assert.equal((await client.getAccount(refreshed)).user.id, before.uid);
    }
    const replaced = await client.sessionRefresh(Session.restore(session.token, oldRefresh), {
      other: "1",
    });
    assert.deepEqual(claimsOf(replaced.token).vrs, { other: "1" });
    const answer = await http(server, "POST", "/v2/account/session/refresh", {
      headers: basic(server.serverKey),
      body: JSON.stringify({ token: oldRefresh }),
    });
    assert.deepEqual(Object.keys(answer.json).sort(), ["refresh_token", "token"]);
  });

  test("refresh reads the username anew", async () => {
    const { session } = await newPlayer(server);
    const username = unique();
    await client.updateAccount(session, { username });
    assert.equal((await client.sessionRefresh(session)).username, username);
  });

  test("nakama-js refreshes by itself when a session is about to end", async () => {
    const auto = clientOf(server, { autoRefresh: true });
    const session = await auto.authenticateDevice(unique(), true);
    const first = claimsOf(session.token);
    session.update(
      forgeToken({ ...first, exp: Math.floor(Date.now() / 1000) - 5 }),
      session.refresh_token,
    );
    assert.equal((await auto.getAccount(session)).user.id, first.uid);
    assert.equal(claimsOf(session.token).tid, first.tid);
    assert.ok(session.expires_at > Date.now() / 1000);
  });

  test("an expired session is refused, refreshed and accepted", async () => {
    const { session } = await newPlayer(server);
    const past = forgeToken({ ...claimsOf(session.token), exp: Math.floor(Date.now() / 1000) - 1 });
    const old = Session.restore(past, session.refresh_token);
    const refused = await refusal(client.getAccount(old));
    assert.deepEqual(refused, { status: 401, code: 16, message: "Auth token invalid" });
    await client.sessionRefresh(old);
    assert.equal((await client.getAccount(old)).user.id, session.user_id);
  });

  test("logout of one session leaves the other", async () => {
    const id = unique();
    const one = await client.authenticateDevice(id);
    const two = await client.authenticateDevice(id);
    await client.sessionLogout(one, one.token, one.refresh_token);
    assert.equal((await refusal(client.getAccount(one))).status, 401);
    const refresh = await refusal(client.sessionRefresh(one));
    assert.deepEqual(refresh, {
      status: 401,
      code: 16,
      message: "Refresh token invalid or expired.",
    });
    assert.equal((await client.getAccount(two)).user.id, two.user_id);
  });

  test("logout of all sessions", async () => {
    const id = unique();
    const one = await client.authenticateDevice(id);
    const two = await client.authenticateDevice(id);
    const [first, second] = [one, two].map(tenSecondsOlder);
    await client.sessionLogout(first, "", "");
    for (const session of [first, second]) {
      assert.equal((await refusal(client.getAccount(session))).status, 401);
      assert.equal((await refusal(client.sessionRefresh(session))).status, 401);
    }
  });

  test("nobody logs out somebody else", async () => {
    const [one, two] = [await newPlayer(server), await newPlayer(server)];
    const refused = await refusal(client.sessionLogout(one.session, two.session.token, ""));
    assert.deepEqual(refused, { status: 400, code: 3, message: "Session token invalid." });
    assert.equal((await client.getAccount(two.session)).user.id, two.session.user_id);
  });

  test("an open socket survives the logout", async () => {
    const { session } = await newPlayer(server);
    const { socket, leave } = await openSocket(client, session);
    await client.sessionLogout(session, session.token, session.refresh_token);
    assert.equal((await socket.rpc("e2e_echo", '"still here"')).payload, '"still here"');
    leave();
  });
});

describe("account", () => {
  test("update, read back, clear", async () => {
    const { session } = await newPlayer(server);
    const profile = {
      username: unique(),
      display_name: "Ada 🎮",
      avatar_url: "https://example.com/a.png",
      lang_tag: "de",
      location: "Kleinmachnow",
      timezone: "Europe/Berlin",
    };
    assert.equal(await client.updateAccount(session, profile), true);
    const { user } = await client.getAccount(session);
    assert.deepEqual({ ...user, ...profile }, user);
    await client.updateAccount(session, { display_name: "" });
    const cleared = (await client.getAccount(session)).user;
    assert.ok(!("display_name" in cleared));
    assert.equal(cleared.timezone, profile.timezone);
  });

  test("users by id and by name, unknown ones left out", async () => {
    const [one, two] = [await newPlayer(server), await newPlayer(server)];
    const unknown = "11111111-2222-4333-8444-555555555555";
    const byId = await client.getUsers(one.session, [
      one.session.user_id,
      two.session.user_id,
      unknown,
    ]);
    const ids = byId.users.map((u) => u.id).sort();
    assert.deepEqual(ids, [one.session.user_id, two.session.user_id].sort());
    const byName = await client.getUsers(one.session, [], [two.session.username]);
    assert.equal(byName.users[0].id, two.session.user_id);
    assert.equal(byName.users[0].username, two.session.username);
  });

  test("online while a socket with status is open", async () => {
    const { session } = await newPlayer(server);
    assert.ok(!(await client.getAccount(session)).user.online);
    const { leave } = await openSocket(client, session, { status: true });
    // The socket is open before the thread that keeps presences has heard of it.
    await until(async () => (await client.getAccount(session)).user.online);
    leave();
    await until(async () => !(await client.getAccount(session)).user.online);
  });

  test("link and unlink", async () => {
    const { session } = await newPlayer(server);
    const [device, custom, address] = [unique(), unique(), email()];
    await client.linkDevice(session, { id: device });
    await client.linkCustom(session, { id: custom });
    await client.linkEmail(session, { email: address, password: PASSWORD });
    const linked = await client.getAccount(session);
    assert.equal(linked.devices.length, 2);
    assert.equal(linked.custom_id, custom);
    assert.equal(linked.email, address.toLowerCase());
    assert.equal((await client.authenticateCustom(custom, false)).user_id, session.user_id);
    assert.equal((await client.authenticateDevice(device, false)).user_id, session.user_id);
    assert.equal(
      (await client.authenticateEmail(address, PASSWORD, false)).user_id,
      session.user_id,
    );

    const other = await newPlayer(server);
    const taken = [
      [() => client.linkDevice(other.session, { id: device }), "Device ID already in use."],
      [() => client.linkCustom(other.session, { id: custom }), "Custom ID is already in use."],
      [
        () => client.linkEmail(other.session, { email: address, password: PASSWORD }),
        "Email is already in use.",
      ],
    ];
    for (const [attempt, message] of taken) {
      assert.deepEqual(await refusal(attempt()), { status: 409, code: 6, message });
    }

    await client.unlinkCustom(session, { id: custom });
    await client.unlinkEmail(session, { email: address, password: PASSWORD });
    await client.unlinkDevice(session, { id: device });
    const left = await client.getAccount(session);
    assert.equal(left.devices.length, 1);
    assert.ok(!left.custom_id && !left.email);
    const last = await refusal(client.unlinkDevice(session, { id: left.devices[0].id }));
    assert.equal(last.status, 403);
    assert.equal((await client.getAccount(session)).devices.length, 1);
  });

  test("delete", async () => {
    const id = unique();
    const session = await client.authenticateDevice(id);
    assert.equal(await client.deleteAccount(session), true);
    const gone = await http(server, "GET", "/v2/account", { headers: bearer(session) });
    assert.ok([401, 404].includes(gone.status), gone.text);
    assert.equal((await refusal(client.authenticateDevice(id, false))).status, 404);
    const anew = await client.authenticateDevice(id);
    assert.notEqual(anew.user_id, session.user_id);
  });
});

describe("settings of sessions", throngOnly, () => {
  test("a token that lives a second expires, its refresh token does not", async () => {
    const short = await startServer({ options: { "session.token_expiry_sec": 1 } });
    try {
      const { client: own, session } = await newPlayer(short);
      const { exp, iat } = claimsOf(session.token);
      assert.equal(exp - iat, 1);
      let status = 200;
      for (const end = Date.now() + 5_000; status === 200 && Date.now() < end;) {
        status = (await http(short, "GET", "/v2/account", { headers: bearer(session) })).status;
      }
      assert.equal(status, 401);
      await own.sessionRefresh(session);
      assert.ok(session.expires_at >= exp);
    } finally {
      await short.stop();
    }
  });
});
