/**
 * Workload 7 of the vendor's benchmark, small: ten players find each other through an RPC that lists matches,
 * then send op code 1 (echoed to the sender) and 2 (broadcast to all) in turns. It runs the example modules
 * bench.lua and bench_match.lua of the repository as they are, in both socket formats at once.
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { startServer } from "./server.mjs";
import { FORMATS, newSocketPlayer, textOf } from "./client.mjs";

/** Of bench.lua: answers `{match_id}`, of a match that is not full. */
const MATCH_RPC = "bench_find_match";
const PLAYERS = 10;
const ROUNDS = 3;
/** How long Nakama may take to list a new match; a busy machine needs more. */
const LISTING_MS_MAX = 5_000;
/** 44 and 35 characters, as in the workload that the protocol of the match comes from. */
const ECHO = "x".repeat(44);
const BROADCAST = "y".repeat(35);

let server;
before(async () => {
  server = await startServer();
});
after(() => server?.stop());

/** A new player joins the match that the RPC names; Nakama's listing lags, so it may name a new one. */
async function enter(index, matchId) {
  const player = await newSocketPlayer(server, { format: FORMATS[index % FORMATS.length] });
  const found = await player.client.rpc(player.session, MATCH_RPC, {});
  assert.match(found.payload.match_id, /^[0-9a-f-]{36}\.nakama$/);
  const match = await player.socket.joinMatch(matchId ?? found.payload.match_id);
  assert.equal(match.authoritative, true);
  await player.next("match_presence", (e) =>
    e.joins?.some((p) => p.user_id === player.session.user_id),
  );
  return { ...player, matchId: match.match_id, found: found.payload.match_id };
}

test("ten players, echo and broadcast in turns", async () => {
  const players = [await enter(0)];
  const { matchId } = players[0];
  for (let n = 1; n < PLAYERS; n += 1) players.push(await enter(n, matchId));

  for (let round = 0; round < ROUNDS; round += 1) {
    for (const p of players) p.socket.sendMatchState(matchId, 1, ECHO);
    for (const p of players) {
      const seen = await p.next("match_data");
      assert.deepEqual([seen.op_code, textOf(seen)], [1, ECHO]);
    }
    for (const p of players) p.socket.sendMatchState(matchId, 2, BROADCAST);
    for (const p of players) {
      for (let n = 0; n < PLAYERS; n += 1) {
        const seen = await p.next("match_data");
        assert.deepEqual([seen.op_code, textOf(seen)], [2, BROADCAST]);
      }
    }
  }

  // The eleventh is not let in here, and the RPC does not send anybody here.
  const late = await newSocketPlayer(server);
  await assert.rejects(late.socket.joinMatch(matchId), (e) => e.code === 5);
  const elsewhere = await late.client.rpc(late.session, MATCH_RPC, {});
  assert.notEqual(elsewhere.payload.match_id, matchId);

  // One leaves, one comes in.
  players[9].leave();
  await players[0].next("match_presence", (e) =>
    e.leaves?.some((p) => p.user_id === players[9].session.user_id),
  );
  await late.socket.joinMatch(matchId);
  for (const p of [...players.slice(0, 9), late]) p.leave();
});

/** Asks until an answer comes again (Nakama lists a match up to a second late): all that were given. */
async function asksUntilListed(player, payload) {
  const deadline = Date.now() + LISTING_MS_MAX;
  const seen = new Set();
  while (Date.now() < deadline) {
    const { match_id } = (await player.client.rpc(player.session, MATCH_RPC, payload)).payload;
    if (seen.has(match_id)) return seen;
    seen.add(match_id);
  }
  assert.fail(`no match was listed: ${[...seen]}`);
}

test("the size of a match is a dial, and sizes do not mix", async () => {
  const players = await Promise.all([0, 1, 2].map((n) => newSocketPlayer(server, { format: FORMATS[n % 2] })));
  const [one, two, three] = players;
  const kinds = new Map();
  // Nothing asked for means ten.
  for (const [size, payload] of [[2, { group: 2 }], [3, { group: 3 }], [10, {}]]) {
    kinds.set(size, await asksUntilListed(one, payload));
  }
  for (const size of kinds.keys()) {
    const query = `+label.mode:bench${size}`;
    const { matches } = await one.client.listMatches(one.session, 100, true, undefined, 0, size, query);
    const listed = new Set(matches.map((match) => match.match_id));
    for (const [other, theirs] of kinds) {
      assert.equal([...theirs].some((id) => listed.has(id)), other === size, `${other} among those of ${size}`);
    }
  }

  // Two seats are two seats; the refusal is the text at which the load generator tries again.
  const [duo] = kinds.get(2);
  await one.socket.joinMatch(duo);
  await two.socket.joinMatch(duo);
  await assert.rejects(three.socket.joinMatch(duo), (e) => e.code === 5 && e.message === "match full");
  for (const p of players) p.leave();
});

test("a payload that asks for no possible size is refused", async () => {
  const { client, session, leave } = await newSocketPlayer(server);
  for (const payload of [{ group: 0 }, { group: 1001 }, { group: 2.5 }, { group: "10" }, 7]) {
    const response = await client.rpc(session, MATCH_RPC, payload).then(
      () => assert.fail(`accepted: ${JSON.stringify(payload)}`),
      (refusal) => refusal,
    );
    const { code, message } = await response.json();
    assert.deepEqual([response.status, code], [400, 3], message);
    assert.match(message, /group is a whole number|payload is not JSON/);
  }
  leave();
});
