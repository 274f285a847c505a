/**
 * Datagrams beside the socket of the released nakama-js, by the client of examples/datagrams: matches in Lua and
 * JavaScript, relayed ones, and the zone, over a way that loses some. Nothing here waits for a time: a test goes on when
 * what it expects has come.
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { startVictim } from "./attack/rig.mjs";
import { startServer, throngOnly } from "./server.mjs";
import { FORMATS, Inbox, newPlayer, newSocketPlayer, textOf, until } from "./client.mjs";
import { CLIENT_DATA, Datagrams, message, open, readMessage, seal } from "../../examples/datagrams/datagrams.mjs";
import { CONTROLS, SNAPSHOT, View, WELCOME, welcome } from "../../examples/zone/zone.mjs";

const folder = (name) => join(dirname(fileURLToPath(import.meta.url)), name);
const ON = { "datagram.enabled": true, "datagram.port": 0, "runtime.path": folder("datagrams") };
const OP_SURE = 2;
const OP_LOSABLE = 13;

let server;
before(async () => {
  if (throngOnly.skip) return;
  const world = { "world.enabled": true, "world.side_m": 512, "world.bots": 50 };
  server = await startVictim({ options: { ...ON, ...world, "engine.cores": 2 } });
});
after(() => server?.stop());

/** A player with datagrams; what comes by them is in `came`. */
async function datagramPlayer(at, { format = "json", ...options } = {}) {
  const player = await newSocketPlayer(at, { format });
  const came = new Inbox();
  const onMatchData = (data) => came.push(data);
  const datagrams = await Datagrams.open(player.socket, { host: at.host, onMatchData, ...options });
  const leave = () => {
    datagrams.close();
    player.leave();
  };
  return { ...player, came, datagrams, leave };
}

const hasOp = (op) => (data) => Number(data.op_code) === op;

/** What both matches do: what is reliable comes over the socket, what is not by datagram, to who takes some. */
async function playMatch(at, match_id, format) {
  const [one, two] = [await datagramPlayer(at, { format }), await newSocketPlayer(at, { format })];
  await one.socket.joinMatch(match_id);
  await two.socket.joinMatch(match_id);
  one.datagrams.sendMatchState(match_id, OP_LOSABLE, Buffer.from("quick"));
  const quick = await one.came.take(hasOp(OP_LOSABLE));
  assert.equal(textOf(quick), "quick");
  assert.equal(quick.match_uuid, match_id.split(".")[0]);
  assert.equal(quick.presence.user_id, one.session.user_id);
  assert.equal(textOf(await two.next("match_data", hasOp(OP_LOSABLE))), "quick");
  // As large as fits, and what does not.
  for (const [bytes, over] of [[1_080, "datagram"], [1_142, "socket"]]) {
    const data = Buffer.alloc(bytes, "x");
    one.datagrams.sendMatchState(match_id, OP_LOSABLE, data);
    const back = over === "datagram" ? one.came.take(hasOp(OP_LOSABLE)) : one.next("match_data", hasOp(OP_LOSABLE));
    assert.deepEqual(Buffer.from((await back).data), data, `${bytes} bytes over the ${over}`);
    await two.next("match_data", hasOp(OP_LOSABLE));
  }
  await one.socket.sendMatchState(match_id, OP_SURE, "sure");
  assert.equal(textOf(await one.next("match_data", hasOp(OP_SURE))), "sure");
  const left = one.on.left((e) => e.name === "match_data" && [OP_SURE, OP_LOSABLE].some((op) => hasOp(op)(e.value)));
  assert.deepEqual([one.came.left().length, left.length], [0, 0]);
  one.leave();
  two.leave();
}

for (const format of FORMATS) {
  describe(`${format}: datagrams`, throngOnly, () => {
    test("a match in Lua says what may be lost", async () => {
      const { client, session } = await newPlayer(server);
      const { payload } = await client.rpc(session, "e2e_create_match", {});
      await playMatch(server, payload.match_id, format);
    });

    test("a match in JavaScript too", async () => {
      const other = await startServer({ options: { ...ON, "runtime.path": folder("javascript") } });
      try {
        const { client, session } = await newPlayer(other);
        await playMatch(other, (await client.rpc(session, "js_arena", {})).payload.match_id, format);
      } finally {
        await other.stop();
      }
    });

    test("players of a relayed match", async () => {
      const [one, two] = [await datagramPlayer(server, { format }), await datagramPlayer(server, { format })];
      const { match_id } = await one.socket.createMatch();
      await two.socket.joinMatch(match_id);
      two.datagrams.sendMatchState(match_id, -5, Buffer.from("hi"));
      const { op_code, is_authoritative, presence, data } = await one.came.take(() => true);
      assert.deepEqual([op_code, is_authoritative, data.toString()], [-5, false, "hi"]);
      assert.equal(presence.user_id, two.session.user_id);
      one.leave();
      two.leave();
    });

    test("a pilot of the zone loses a fifth of them, and sees what is there", async () => {
      const lost = await losing(0.2);
      const one = await datagramPlayer(server, { format, transport: lost.transport });
      const query = "+label.kind:zone";
      const { matches } = await one.client.listMatches(one.session, 1, true, undefined, 0, undefined, query);
      const [{ match_id }] = matches;
      await one.socket.joinMatch(match_id);
      const ship = welcome((await one.next("match_data", hasOp(WELCOME))).data);
      const two = await newSocketPlayer(server, { format });
      await two.socket.joinMatch(match_id);
      const [view, other] = [new View(), new View()];
      const inTick = new Map();
      let [seq, compared, snapshots] = [0, 0, 0];
      while (snapshots < 100 || view.controlSeq < 60 || compared < 100) {
        const { data } = await one.came.take(hasOp(SNAPSHOT));
        view.take(data);
        snapshots += 1;
        seq += 1;
        one.datagrams.sendMatchState(match_id, CONTROLS, view.controls(seq, [{ turn: 5, thrust: 2 }]));
        // The other one, of whom nothing is lost, is told of the same ships the same.
        while (other.tick === undefined || other.tick < view.tick) {
          other.take((await two.next("match_data", hasOp(SNAPSHOT))).data);
          await two.socket.sendMatchState(match_id, CONTROLS, other.controls());
          inTick.set(other.tick, new Map([...other.known].map(([slot, { records }]) => [slot, records.get(other.tick)])));
        }
        for (const [slot, record] of inTick.get(view.tick) ?? []) {
          const own = view.known.get(slot)?.records.get(view.tick);
          if (!record || !own) continue;
          assert.deepEqual(own, record, `slot ${slot} in tick ${view.tick}`);
          compared += 1;
        }
      }
      assert.ok(view.known.has(ship.slot));
      assert.ok(lost.count() > 20, `${lost.count()} lost`);
      assert.equal(one.on.left((e) => e.name === "match_data" && hasOp(SNAPSHOT)(e.value)).length < 3, true);
      one.leave();
      two.leave();
    });
  });
}

/** A way that loses some in both directions, by turns that do not depend on chance. */
async function losing(share) {
  let [step, lost] = [0, 0];
  const isLost = () => {
    step += share;
    if (step < 1) return false;
    step -= 1;
    lost += 1;
    return true;
  };
  const udp = createSocket("udp4");
  udp.bind(0, "127.0.0.1");
  await once(udp, "listening");
  const transport = ({ port }, heard) => {
    udp.on("message", (bytes) => isLost() || heard(bytes));
    return { send: (bytes) => isLost() || udp.send(bytes, port, "127.0.0.1"), close: () => udp.close() };
  };
  return { transport, count: () => lost };
}

describe("datagrams end, move and fall back", throngOnly, () => {
  test("whoever moves to another port goes on there", async () => {
    const ways = [createSocket("udp4"), createSocket("udp4")];
    for (const udp of ways) {
      udp.bind(0, "127.0.0.1");
      await once(udp, "listening");
    }
    let [now, came] = [0, [0, 0]];
    const transport = ({ port }, heard) => {
      ways.forEach((udp, index) =>
        udp.on("message", (bytes) => {
          came[index] += 1;
          heard(bytes);
        }),
      );
      return { send: (bytes) => ways[now].send(bytes, port, "127.0.0.1"), close: () => ways.forEach((udp) => udp.close()) };
    };
    const one = await datagramPlayer(server, { transport });
    const { match_id } = (await one.client.rpc(one.session, "e2e_create_match", {})).payload;
    await one.socket.joinMatch(match_id);
    now = 1;
    came = [0, 0];
    for (let round = 0; came[1] < 10; round += 1) {
      one.datagrams.sendMatchState(match_id, OP_LOSABLE, Buffer.from(String(round)));
      await one.came.take(hasOp(OP_LOSABLE));
    }
    assert.ok(came[0] > 0, "the old place is sent to until the new one has answered");
    const counters = await server.counters();
    assert.equal(counters.of("datagram_paths_lost"), 0);
    one.leave();
  });

  test("after a log-out nothing more goes by datagram, and all over the socket", async () => {
    const one = await datagramPlayer(server);
    const { match_id } = (await one.client.rpc(one.session, "e2e_create_match", {})).payload;
    await one.socket.joinMatch(match_id);
    await one.client.sessionLogout(one.session, one.session.token, one.session.refresh_token);
    const before = (await server.counters()).of("datagrams_unknown");
    one.datagrams.sendMatchState(match_id, OP_LOSABLE, Buffer.from("lost"));
    await until(async () => (await server.counters()).of("datagrams_unknown") > before);
    await one.socket.sendMatchState(match_id, OP_LOSABLE, "still");
    assert.equal(textOf(await one.next("match_data", hasOp(OP_LOSABLE))), "still");
    assert.equal(one.came.left().length, 0);
    one.leave();
  });

  test("a server without datagrams knows no such function", async () => {
    const plain = await startServer({ options: { "world.enabled": false } });
    try {
      const { socket, leave } = await newSocketPlayer(plain);
      const error = await Datagrams.open(socket, { host: plain.host }).catch((error) => error);
      assert.match(error.message, /RPC function not found/);
      leave();
    } finally {
      await plain.stop();
    }
  });

  test("the example of the page is what this client writes and reads", async () => {
    const page = await readFile(new URL("../../docs/datagrams.md", import.meta.url), "utf8");
    const key = Buffer.from(Array.from({ length: 32 }, (_, at) => at));
    const id = Buffer.from("8877665544332211", "hex");
    const body = message("5a0e8b1c-0000-4000-8000-000000000001.nakama", 2, Buffer.from("hello"));
    const bytes = seal(key, { kind: CLIENT_DATA, id, sequence: 7, newest: 3, bits: 3 }, body);
    const hex = /```text\n((?:[0-9a-f]{2}[ \n])+)```/.exec(page)[1];
    assert.equal(bytes.toString("hex"), hex.replaceAll(/\s/g, ""));
    const { kind, sequence, newest, bits } = open(key, bytes);
    assert.deepEqual([kind, sequence, newest, bits], [CLIENT_DATA, 7, 3, 3]);
    assert.equal(readMessage(open(key, bytes).body).data.toString(), "hello");
    for (let at = 0; at < bytes.length; at += 1) {
      const changed = Buffer.from(bytes);
      changed[at] ^= 1;
      assert.equal(open(key, changed), undefined, `byte ${at}`);
    }
  });
});
