/**
 * Players of a game whose functions let them join, change and leave streams, as fast as the server answers: what
 * one account can be in is bounded, a member who does not read is not cut off for others' coming and going, and a
 * neighbour plays on. And one who has a function send to a crowd as often as the server answers: what it costs is
 * weighed by who gets it.
 */
import { test } from "node:test";
import assert from "node:assert/strict";
import { newPlayer, RawSocket, unique, until } from "../client.mjs";
import { throngOnly } from "../server.mjs";
import { besideNeighbour, inParallel, startVictim } from "./rig.mjs";

const ATTACKERS = 16;
const SOCKETS = 8;
const FLOOD_MS = 3_000;

async function ask(raw, op, stream, more = {}) {
  const { rpc, error } = await raw.request({
    rpc: { id: "stream", payload: JSON.stringify({ op, stream, ...more }) },
  });
  assert.ok(rpc, JSON.stringify(error));
  return JSON.parse(rpc.payload);
}

/** The sockets of so many players, `SOCKETS` of each; what they are told is thrown away. */
async function attackers(server) {
  const all = [];
  await inParallel(ATTACKERS, 8, async () => {
    const { session } = await newPlayer(server);
    for (let i = 0; i < SOCKETS; i += 1) {
      const raw = await RawSocket.open(server, session.token);
      raw.frames.removeAllListeners("message");
      raw.frames.on("message", (data) => {
        const text = data.toString();
        if (text.includes('"cid"')) raw.on.push(JSON.parse(text));
      });
      all.push(raw);
    }
  });
  return all;
}

test("one account joins as many streams as it can", throngOnly, async (context) => {
  const server = await startVictim({ options: { "engine.rooms": 1 } });
  const raws = [];
  try {
    const { session } = await newPlayer(server);
    for (let i = 0; i < SOCKETS; i += 1) raws.push(await RawSocket.open(server, session.token));
    const before = await server.residentBytes();
    const { result } = await besideNeighbour(server, async () => {
      const found = [];
      for (const raw of raws) {
        found.push(await ask(raw, "join_many", undefined, { count: 1_000, prefix: unique("s") }));
      }
      return found;
    });
    const grown = (await server.residentBytes()) - before;
    context.diagnostic(`${JSON.stringify(result)}, ${grown} bytes more`);
    const joined = result.map((one) => one.joined);
    assert.deepEqual(joined.slice(0, 4), [256, 256, 256, 256], "of each session limit.presences_per_session");
    assert.deepEqual(joined.slice(4), [0, 0, 0, 0], "of all together limit.streams_per_user");
    assert.match(result[0].refused, /limit\.presences_per_session is 256/);
    assert.match(result[4].refused, /limit\.streams_per_user is 1024/);
    const counters = await server.counters();
    assert.deepEqual([counters.of("streams"), counters.of("presences") >= 1_024], [1_024, true]);
    assert.deepEqual([counters.of("joins_refused"), counters.of("limited_streams_per_user")], [4, 4]);
    assert.ok(grown < 16 << 20, `${grown} bytes for 1,024 presences`);
    raws.forEach((raw) => raw.close());
    await until(async () => (await server.counters()).of("streams") === 0);
  } finally {
    raws.forEach((raw) => raw.close());
    await server.stop();
  }
});

test("a crowd comes, changes and goes in one stream", throngOnly, async (context) => {
  const server = await startVictim();
  let raws = [];
  let victim;
  try {
    const stream = { mode: 100, label: unique("crowd") };
    const player = await newPlayer(server);
    victim = await RawSocket.open(server, player.session.token);
    await ask(victim, "join", stream);
    raws = await attackers(server);
    const flood = async () => {
      // It reads nothing while they come and go.
      victim.frames.pause();
      const end = Date.now() + FLOOD_MS;
      let count = 0;
      await inParallel(raws.length, raws.length, async (at) => {
        while (Date.now() < end) {
          await ask(raws[at], "join", stream, { status: "x".repeat(100) });
          await ask(raws[at], "update", stream, { status: "y".repeat(100) });
          await ask(raws[at], "leave", stream);
          count += 1;
        }
      });
      return count;
    };
    const { result, report } = await besideNeighbour(server, flood);
    const counters = await server.counters();
    const told = ["presence_event_count", "stream_events_excess"].map((name) => counters.of(name));
    context.diagnostic(`${result} rounds, events and those beyond the limit ${told}, beside ${JSON.stringify(report)}`);
    assert.ok(result > ATTACKERS * SOCKETS && told[1] > 0, `${result} rounds, ${told}`);
    victim.frames.resume();
    assert.equal((await ask(victim, "get", stream)).found.username, player.session.username, "it is still there");
    raws.forEach((raw) => raw.close());
    await until(async () => (await ask(victim, "count", stream)).count === 1);
  } finally {
    [...raws, victim].forEach((raw) => raw?.close());
    await server.stop();
  }
});

test("one account has a function send to a crowd, again and again", throngOnly, async (context) => {
  const server = await startVictim();
  let raws = [];
  const senders = [];
  try {
    const stream = { mode: 100, label: unique("crowd") };
    raws = await attackers(server);
    await inParallel(raws.length, 8, (at) => ask(raws[at], "join", stream));
    const { session } = await newPlayer(server);
    for (let i = 0; i < SOCKETS; i += 1) senders.push(await RawSocket.open(server, session.token));
    const flood = async () => {
      const end = Date.now() + FLOOD_MS;
      let count = 0;
      await inParallel(SOCKETS, SOCKETS, async (at) => {
        while (Date.now() < end) {
          await ask(senders[at], "send_many", stream, { count: 100, data: "x".repeat(100) });
          count += 1;
        }
      });
      return count;
    };
    const { result, report } = await besideNeighbour(server, flood);
    const counters = await server.counters();
    const [sent, refused] = ["stream_messages_delivered", "stream_messages_refused"].map((name) => counters.of(name));
    context.diagnostic(`${result} calls, ${sent} sent, ${refused} refused, beside ${JSON.stringify(report)}`);
    assert.ok(refused > 0, `${result} calls, ${sent} sent`);
  } finally {
    [...raws, ...senders].forEach((raw) => raw.close());
    await server.stop();
  }
});
