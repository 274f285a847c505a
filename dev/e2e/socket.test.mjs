/**
 * The realtime socket where the SDK hides it: handshake, both formats, envelopes, order, limits, heartbeat, and
 * every way in which the server closes. Matches are in match.test.mjs, status in status.test.mjs.
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { startServer, isExternal, throngOnly } from "./server.mjs";
import {
  claimsOf,
  clientOf,
  closedWith,
  forgeToken,
  FORMATS,
  newPlayer,
  newSocketPlayer,
  openSocket,
  RawSocket,
  refusal,
  SOON_MS,
  tenSecondsOlder,
  unique,
} from "./client.mjs";

let server;
let player;
before(async () => {
  server = await startServer();
  player = await newPlayer(server);
});
after(() => server?.stop());

const open = (query) => RawSocket.open(server, player.session.token, query);
const refusedOpen = (token, query, headers) =>
  RawSocket.open(server, token, query, headers).then(
    () => assert.fail("the handshake was accepted"),
    (refusal) => refusal,
  );

describe("handshake", () => {
  test("bad and missing tokens", async () => {
    const claims = claimsOf(player.session.token);
    const expired = forgeToken({ ...claims, exp: Math.floor(Date.now() / 1000) - 1 });
    const foreign = forgeToken(claims, "another key");
    for (const token of [undefined, "abc", expired, foreign, player.session.refresh_token]) {
      const { status, body } = await refusedOpen(token);
      assert.equal(status, 401);
      assert.equal(body.trim(), "Missing or invalid token");
    }
  });

  test("an unknown format", async () => {
    const { status, body } = await refusedOpen(player.session.token, { format: "xml" });
    assert.equal(status, 400);
    assert.equal(body.trim(), "Invalid format parameter");
  });

  test("the token may come in a header", async () => {
    const headers = { authorization: `Bearer ${player.session.token}` };
    const raw = await RawSocket.open(server, undefined, {}, headers);
    assert.deepEqual(await raw.request({ ping: {} }), { cid: "1", pong: {} });
    raw.close();
  });

  test("no subprotocol, no compression, no greeting", async () => {
    const raw = await open({ lang: "de", status: "false" });
    assert.equal(raw.frames.protocol, "");
    assert.equal(raw.frames.extensions, "");
    await raw.request({ ping: {} });
    assert.deepEqual(raw.on.left(), []);
    raw.close();
  });

  test("lang is seen by scripts", async () => {
    const raw = await open({ lang: "de" });
    const { rpc } = await raw.request({ rpc: { id: "e2e_context", payload: "{}" } });
    assert.equal(JSON.parse(rpc.payload).lang, "de");
    raw.close();
  });
});

describe("envelopes", () => {
  test("ping, in any order of keys, with and without cid", async () => {
    const raw = await open();
    raw.send('{"ping":{},"cid":"a"}');
    assert.deepEqual(await raw.on.take((m) => m.cid === "a"), { cid: "a", pong: {} });
    raw.send('  { "cid" : "b" , "ping" : { } }  ');
    assert.deepEqual(await raw.on.take((m) => m.cid === "b"), { cid: "b", pong: {} });
    raw.send({ ping: {} });
    assert.deepEqual(await raw.next("pong"), {});
    raw.close();
  });

  test("a client's own pong is accepted", async () => {
    const raw = await open();
    raw.send({ pong: {} });
    assert.deepEqual(await raw.request({ ping: {} }), { cid: "1", pong: {} });
    raw.close();
  });

  test("cids are handed back as they came", async () => {
    const raw = await open();
    for (const cid of ["0", "é🎮", 'a"b\\', "x".repeat(200)]) {
      raw.send({ cid, ping: {} });
      assert.deepEqual(await raw.on.take((m) => m.cid === cid), { cid, pong: {} });
    }
    raw.close();
  });

  test("answers come in the order of the requests", async () => {
    const raw = await open();
    const order = [];
    for (let n = 0; n < 50; n += 1) {
      const cid = `${n}`;
      if (n % 3 === 0) raw.send({ cid, rpc: { id: "e2e_echo", payload: cid } });
      else if (n % 3 === 1) raw.send({ cid, ping: {} });
      else raw.send({ cid, match_join: { match_id: "not an id" } });
    }
    for (let n = 0; n < 50; n += 1) order.push((await raw.on.take(() => true)).cid);
    assert.deepEqual(
      order,
      Array.from({ length: 50 }, (_, n) => `${n}`),
    );
    raw.close();
  });

  test("a slow function holds up its own socket and no other", async () => {
    const [one, other] = [await open(), await open()];
    const started = Date.now();
    one.send({ cid: "slow", rpc: { id: "e2e_slow", payload: '{"ms":400}' } });
    one.send({ cid: "after", ping: {} });
    await other.request({ ping: {} });
    const free = Date.now() - started;
    assert.equal((await one.on.take(() => true)).cid, "slow");
    assert.equal((await one.on.take(() => true)).cid, "after");
    const held = Date.now() - started;
    assert.ok(held >= 400 && free < held, `other socket ${free} ms, own socket ${held} ms`);
    one.close();
    other.close();
  });

  test("a fragmented message is one message", async () => {
    const raw = await open();
    raw.frames.send('{"cid":"f",', { fin: false });
    raw.frames.send('"pi', { fin: false });
    raw.frames.ping("between");
    raw.frames.send('ng":{}}', { fin: true });
    assert.deepEqual(await raw.on.take((m) => m.pong_frame), { pong_frame: "between" });
    assert.deepEqual(await raw.on.take((m) => m.cid === "f"), { cid: "f", pong: {} });
    raw.close();
  });

  test("ping frames are answered with their payload", async () => {
    const raw = await open();
    raw.frames.ping("hello");
    assert.deepEqual(await raw.on.take((m) => m.pong_frame), { pong_frame: "hello" });
    raw.close();
  });

  test("many messages in one write", async () => {
    const raw = await open();
    raw.frames._socket.cork();
    for (let n = 0; n < 40; n += 1) raw.send({ cid: `${n}`, ping: {} });
    raw.frames._socket.uncork();
    for (let n = 0; n < 40; n += 1)
      assert.deepEqual(await raw.on.take(() => true), { cid: `${n}`, pong: {} });
    raw.close();
  });
});

describe("errors that keep the socket", () => {
  const unknownMatch = "11111111-2222-4333-8444-555555555555";
  const ROWS = [
    ["match id that is none", { match_join: { match_id: "nonsense" } }, 3, "Invalid match ID"],
    ["neither id nor token", { match_join: {} }, 3, "No match ID or token found"],
    ["a bad match token", { match_join: { token: "abc" } }, 3, "Invalid match token"],
    [
      "unknown relayed match",
      { match_join: { match_id: `${unknownMatch}.` } },
      4,
      "Match not found",
    ],
    [
      "unknown authoritative match",
      { match_join: { match_id: `${unknownMatch}.nakama` } },
      4,
      "Match not found",
    ],
    ["leaving with a bad id", { match_leave: { match_id: "nonsense" } }, 3, "Invalid match ID"],
    ["rpc without id", { rpc: {} }, 3, "RPC ID must be set"],
    ["rpc unknown", { rpc: { id: "none" } }, 6, "RPC function not found"],
  ];
  for (const [name, message, code, text] of ROWS) {
    test(name, async () => {
      const raw = await open();
      assert.deepEqual(await raw.request(message), { cid: "1", error: { code, message: text } });
      assert.deepEqual(await raw.request({ ping: {} }), { cid: "2", pong: {} });
      raw.close();
    });
  }

  test("match data with a bad id: an error without cid", async () => {
    const raw = await open();
    raw.send({ match_data_send: { match_id: "nonsense", op_code: "1", data: "" } });
    assert.deepEqual(await raw.next("error"), { code: 3, message: "Invalid match ID" });
    raw.close();
  });

  test("data for a match one is not in is dropped", async () => {
    const raw = await open();
    raw.send({ match_data_send: { match_id: `${unknownMatch}.`, op_code: 1, data: "" } });
    raw.send({ match_data_send: { match_id: `${unknownMatch}.nakama`, op_code: 1, data: "" } });
    await raw.request({ ping: {} });
    assert.deepEqual(raw.on.left(), []);
    raw.close();
  });

  test("what is not built yet says so", throngOnly, async () => {
    const raw = await open();
    for (const message of [
      { matchmaker_add: { query: "*", min_count: 2, max_count: 2 } },
      { party_create: { open: true, max_size: 4 } },
      { channel_join: { target: "room", type: 1 } },
    ]) {
      const { error } = await raw.request(message);
      assert.match(error.message, /not implemented in throng yet/);
    }
    await raw.request({ ping: {} });
    raw.close();
  });
});

describe("what closes the socket", () => {
  const MALFORMED = [
    ["not JSON", "hello"],
    ["half a message", '{"cid":"1","ping":'],
    ["a list", "[]"],
    ["wrong type", '{"cid":"1","match_join":{"match_id":7}}'],
    ["two messages", '{"ping":{},"pong":{}}'],
    ["op code that is no number", '{"match_data_send":{"match_id":"x","op_code":"one"}}'],
    ["data that is no base64", '{"match_data_send":{"match_id":"x","op_code":"1","data":"*"}}'],
    ["an empty frame", ""],
  ];
  for (const [name, text] of MALFORMED) {
    test(`malformed: ${name}`, async () => {
      const raw = await open();
      raw.send(text);
      await closedWith(raw, "received malformed payload");
    });
  }

  test("malformed protobuf", async () => {
    const raw = await open({ format: "protobuf" });
    raw.send(new Uint8Array([0xff, 0xff, 0xff]));
    await closedWith(raw, "received malformed payload");
  });

  test("no message in the envelope", async () => {
    const raw = await open();
    raw.send({ cid: "1" });
    await closedWith(raw, "error processing message", { code: 2, message: "Missing message." });
  });

  test("a message that only servers send", async () => {
    const raw = await open();
    raw.send({ cid: "1", status: {} });
    await closedWith(raw, "error processing message", {
      code: 1,
      message: "Unrecognized message.",
    });
  });

  test("a message that nobody knows", async () => {
    const raw = await open();
    raw.send({ cid: "1", unheard_of: {} });
    const { code, reason } = await raw.untilClosed();
    assert.equal(code, 1000);
    if (isExternal) {
      assert.equal(reason, "received malformed payload");
    } else {
      // Better than Nakama: the sender is told what was wrong before the close.
      const [{ cid, error }] = raw.on.left();
      assert.equal(cid, "1");
      assert.equal(error.code, 1);
    }
  });

  test("a binary frame on a JSON socket, a text frame on a protobuf one", async () => {
    const json = await open();
    json.send(new TextEncoder().encode('{"ping":{}}'));
    await closedWith(json, "received unexpected WebSocket message type");
    const protobuf = await open({ format: "protobuf" });
    protobuf.send('{"ping":{}}');
    await closedWith(protobuf, "received unexpected WebSocket message type");
  });

  test("4096 bytes are taken, one more is too many", async () => {
    const sized = (bytes) => {
      const empty = JSON.stringify({ cid: "1", rpc: { id: "e2e_echo", payload: "" } });
      return JSON.stringify({
        cid: "1",
        rpc: { id: "e2e_echo", payload: "x".repeat(bytes - empty.length) },
      });
    };
    const raw = await open();
    raw.send(sized(4096));
    const { rpc } = await raw.on.take((m) => m.cid === "1");
    assert.ok(rpc.payload.length > 4000);
    raw.send(sized(4097));
    assert.equal((await raw.untilClosed()).code, 1009);
  });

  test("fragments count together", async () => {
    const raw = await open();
    raw.frames.send("x".repeat(3000), { fin: false });
    raw.frames.send("x".repeat(3000), { fin: true });
    assert.equal((await raw.untilClosed()).code, 1009);
  });

  test("the client's close is answered", async () => {
    const raw = await open();
    raw.frames.close(1000, "bye");
    assert.equal((await raw.untilClosed()).code, 1000);
  });

  test("a script disconnects a session", async () => {
    const raw = await open();
    raw.send({ rpc: { id: "e2e_disconnect", payload: "{}" } });
    assert.deepEqual(await raw.untilClosed(), {
      code: 1000,
      reason: "server-side session disconnect",
    });
  });

  test("a ban closes the sockets and shuts the door", async () => {
    const client = clientOf(server);
    const id = unique();
    const session = await client.authenticateDevice(id);
    const raw = await RawSocket.open(server, session.token);
    await raw.request({ ping: {} });
    await player.client.rpc(player.session, "e2e_ban", { user_id: session.user_id });
    const { notifications } = await raw.next("notifications");
    assert.equal(notifications.length, 1);
    assert.equal(notifications[0].code, -8);
    assert.equal(notifications[0].subject, "banned");
    await raw.untilClosed();
    assert.equal((await refusal(client.getAccount(tenSecondsOlder(session)))).status, 401);
    assert.deepEqual(await refusal(client.authenticateDevice(id)), {
      status: 403,
      code: 7,
      message: "User account banned.",
    });
  });

  test("a client that does not read is closed, the others go on", async () => {
    const { client, session } = await newPlayer(server);
    const fast = await openSocket(client, session);
    const lazy = await RawSocket.open(server, player.session.token);
    lazy.frames.pause();
    const match = await fast.socket.createMatch();
    lazy.send({ cid: "j", match_join: { match_id: match.match_id } });
    await fast.next("match_presence", (e) =>
      e.joins?.some((p) => p.user_id === player.session.user_id),
    );
    let gone;
    const left = fast
      .next("match_presence", (e) => e.leaves?.length > 0, 30_000)
      .then(() => (gone = true));
    const data = "x".repeat(2000); // Base64 on the wire, and still under the limit of a message.
    while (!gone) {
      await fast.socket.sendMatchState(match.match_id, 1, data);
      await fast.socket.rpc("e2e_echo", "x"); // Keeps the sender's own queue short.
    }
    await left;
    fast.leave();
    lazy.close();
  });

  test("neighbours of a bad socket notice nothing", async () => {
    const good = await open();
    for (const [, text] of MALFORMED) {
      const bad = await open();
      bad.send(text);
      await bad.untilClosed();
    }
    assert.deepEqual(await good.request({ ping: {} }), { cid: "1", pong: {} });
    good.close();
  });
});

describe("nakama-js", () => {
  for (const format of FORMATS) {
    test(`${format}: connect, disconnect, connect again`, async () => {
      const { client, session, leave } = await newSocketPlayer(server, { format });
      leave();
      for (let round = 0; round < 3; round += 1) {
        const again = await openSocket(client, session, { format });
        assert.equal((await again.socket.rpc("e2e_echo", `${round}`)).payload, `${round}`);
        again.leave();
      }
    });

    test(`${format}: a refused token rejects connect`, async () => {
      const { client, session } = await newPlayer(server);
      session.token = forgeToken(claimsOf(session.token), "another key");
      await assert.rejects(openSocket(client, session, { format }), (e) => e.type === "error");
    });

    test(`${format}: a session that ends while the socket is open keeps the socket`, async () => {
      const { client, session } = await newPlayer(server);
      const claims = { ...claimsOf(session.token), exp: Math.floor(Date.now() / 1000) + 1 };
      session.token = forgeToken(claims);
      const { socket, leave } = await openSocket(client, session, { format });
      let expired = false;
      for (const end = Date.now() + SOON_MS; !expired && Date.now() < end;) {
        expired = await client.getAccount(session).then(
          () => false,
          () => true,
        );
      }
      assert.ok(expired);
      assert.equal((await socket.rpc("e2e_echo", "x")).payload, "x");
      leave();
    });

    test(`${format}: heartbeat`, async () => {
      const { client, session } = await newPlayer(server);
      const socket = client.createSocket(false, false);
      socket.setHeartbeatTimeoutMs(50);
      let lost = false;
      socket.onheartbeattimeout = () => (lost = true);
      await socket.connect(session, false);
      for (let round = 0; round < 20; round += 1) await socket.rpc("e2e_slow", '{"ms":10}');
      assert.equal(lost, false);
      socket.disconnect(false);
    });
  }
});

describe("settings of sockets", throngOnly, () => {
  test("server pings, and closes who is silent", async () => {
    const options = { "socket.ping_period_ms": 100, "socket.pong_wait_ms": 400 };
    const quick = await startServer({ options });
    try {
      const { session } = await newPlayer(quick);
      const raw = await RawSocket.open(quick, session.token);
      for (let n = 0; n < 6; n += 1) await raw.on.take((m) => "ping_frame" in m);
      await raw.request({ ping: {} });
      raw.frames.pause(); // Reads no more: no pong goes out.
      await assert.rejects(raw.request({ ping: {} }, 300));
      const silent = await RawSocket.open(quick, session.token);
      silent.frames._autoPong = false;
      await silent.untilClosed();
      raw.close();
    } finally {
      await quick.stop();
    }
  });

  test("single_socket: the newer socket closes the older", async () => {
    const strict = await startServer({ options: { "session.single_socket": true } });
    try {
      const { session } = await newPlayer(strict);
      const older = await RawSocket.open(strict, session.token);
      const newer = await RawSocket.open(strict, session.token);
      assert.equal((await older.next("notifications")).notifications[0].code, -7);
      await older.untilClosed();
      await newer.request({ ping: {} });
      newer.close();
    } finally {
      await strict.stop();
    }
  });
});
