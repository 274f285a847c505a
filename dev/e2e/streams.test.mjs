/**
 * Streams that scripts make: who joins and leaves, what members are told, what they are sent, and what scripts can
 * find out; over nakama-js in both socket formats. What streams of the server's own tell is looked at last.
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { startServer, throngOnly } from "./server.mjs";
import { FORMATS, newSocketPlayer, openSocket, RawSocket, newPlayer, unique, until } from "./client.mjs";

let server;
before(async () => (server = await startServer()));
after(() => server?.stop());

const idOf = ({ session }) => session.user_id;
/** A stream of the test's own. */
const lobby = (mode = 100) => ({ mode, label: unique("lobby") });
/** Calls a function of streams over the player's socket, so that it is about that socket's session. */
async function ask({ socket }, op, stream, more = {}) {
  const { payload } = await socket.rpc("stream", JSON.stringify({ op, stream, ...more }));
  return JSON.parse(payload);
}
const of = (stream) => (event) => event.stream.label === stream.label;
const names = (presences) => (presences ?? []).map(({ username }) => username);
const nothingOf = (player, name) => player.on.left((event) => event.name === name);

for (const format of FORMATS) {
  describe(`${format}: streams of scripts`, () => {
    const meet = async (count) => {
      const players = [];
      for (let i = 0; i < count; i += 1) players.push(await newSocketPlayer(server, { format }));
      return players;
    };

    test("members hear of who joins, changes, leaves and closes", async () => {
      const stream = lobby();
      const [ann, bob, eve] = await meet(3);
      assert.deepEqual(await ask(ann, "join", stream), { is_new: true });
      const own = await ann.next("stream_presence", of(stream));
      assert.deepEqual(names(own.joins), [ann.session.username]);
      assert.equal(own.joins[0].user_id, idOf(ann));
      assert.equal(own.joins[0].persistence, true);
      assert.equal(own.stream.mode, 100);
      assert.deepEqual(await ask(ann, "join", stream), { is_new: false });
      await ask(bob, "join", stream, { persistence: false, status: "idle" });
      const joined = await ann.next("stream_presence", of(stream));
      assert.deepEqual([names(joined.joins), names(joined.leaves)], [[bob.session.username], []]);
      assert.ok(!joined.joins[0].persistence);
      await bob.next("stream_presence", of(stream));
      await ask(bob, "update", stream, { status: "ready" });
      for (const player of [ann, bob]) {
        const changed = await player.next("stream_presence", of(stream));
        const both = [[bob.session.username], [bob.session.username]];
        assert.deepEqual([names(changed.joins), names(changed.leaves)], both);
      }
      const { found } = await ask(bob, "get", stream);
      const known = { hidden: false, persistence: true, username: bob.session.username, status: "ready" };
      assert.deepEqual(found, known);
      await ask(eve, "join", stream);
      await ann.next("stream_presence", of(stream));
      await ask(bob, "leave", stream);
      assert.deepEqual(names((await ann.next("stream_presence", of(stream))).leaves), [bob.session.username]);
      eve.leave();
      assert.deepEqual(names((await ann.next("stream_presence", of(stream))).leaves), [eve.session.username]);
      assert.deepEqual(await ask(ann, "count", stream), { count: 1 });
      for (const player of [ann, bob]) player.leave();
    });

    test("of hidden members nobody is told, and they are told of others", async () => {
      const stream = lobby();
      const [ann, bob] = await meet(2);
      await ask(ann, "join", stream);
      await ann.next("stream_presence", of(stream));
      await ask(bob, "join", stream, { hidden: true });
      const list = async (more) => names((await ask(ann, "list", stream, more)).presences);
      assert.deepEqual(await list({}), [ann.session.username, bob.session.username]);
      assert.deepEqual(await list({ with_hidden: false }), [ann.session.username]);
      assert.deepEqual(await list({ with_others: false }), [bob.session.username]);
      await ask(ann, "update", stream, { status: "here" });
      await bob.next("stream_presence", of(stream));
      await ann.next("stream_presence", of(stream));
      // Shown, then hidden again: one joins, then leaves.
      await ask(bob, "update", stream);
      const shown = await ann.next("stream_presence", of(stream));
      assert.deepEqual([names(shown.joins), names(shown.leaves)], [[bob.session.username], []]);
      await ask(bob, "update", stream, { hidden: true });
      const hidden = await ann.next("stream_presence", of(stream));
      assert.deepEqual([names(hidden.joins), names(hidden.leaves)], [[], [bob.session.username]]);
      await ask(bob, "leave", stream);
      assert.deepEqual(await ask(ann, "count", stream), { count: 1 });
      assert.deepEqual(nothingOf(ann, "stream_presence"), []);
      for (const player of [ann, bob]) player.leave();
    });

    test("what is sent reaches all members, or those that are named", async () => {
      const stream = lobby();
      const [ann, bob, eve] = await meet(3);
      await ask(ann, "join", stream);
      await ask(bob, "join", stream, { hidden: true });
      await ask(eve, "send", stream, { data: "to all é" });
      for (const player of [ann, bob]) {
        const event = await player.next("stream_data", of(stream));
        assert.equal(event.data, "to all é");
        assert.equal(event.stream.mode, 100);
        assert.ok(!event.sender);
      }
      const { presences } = await ask(ann, "list", stream);
      const bobs = presences.filter(({ user_id }) => user_id === idOf(bob));
      assert.equal(bobs[0].node.length > 0 && bobs[0].hidden, true);
      await ask(ann, "send", stream, { data: "to bob", presences: bobs, reliable: false });
      assert.equal((await bob.next("stream_data", of(stream))).data, "to bob");
      const raw = { stream_data: { stream, data: "raw", sender: { user_id: idOf(eve), session_id: "s", username: "e" } } };
      await ask(ann, "send_raw", stream, { envelope: raw });
      for (const player of [ann, bob]) {
        const event = await player.next("stream_data", of(stream));
        assert.deepEqual([event.data, event.sender.username], ["raw", "e"]);
      }
      for (const player of [ann, bob, eve]) assert.deepEqual(nothingOf(player, "stream_data"), []);
      for (const player of [ann, bob, eve]) player.leave();
    });

    test("kicked members are gone; of a stream that is closed nobody is told", async () => {
      const stream = lobby();
      const [ann, bob] = await meet(2);
      await ask(ann, "join", stream);
      await ask(bob, "join", stream);
      const { presences } = await ask(ann, "list", stream);
      await ask(ann, "kick", stream, { presence: presences.find(({ user_id }) => user_id === idOf(bob)) });
      const left = (event) => of(stream)(event) && event.leaves?.length > 0;
      assert.deepEqual(names((await ann.next("stream_presence", left)).leaves), [bob.session.username]);
      await ask(ann, "close", stream);
      assert.deepEqual(await ask(ann, "count", stream), { count: 0 });
      assert.equal((await ask(ann, "get", stream)).found, undefined);
      assert.ok(nothingOf(ann, "stream_presence").every(({ value }) => !value.leaves?.length));
      for (const player of [ann, bob]) player.leave();
    });

    test("sockets, statuses and players of matches are streams of the server's", async () => {
      const [ann, bob] = await meet(2);
      const second = await openSocket(ann.client, ann.session, { format, status: true });
      const sockets = (mode) => ask(bob, "count", { mode, subject: idOf(ann) });
      await until(async () => (await sockets(0)).count === 2);
      await until(async () => (await sockets(1)).count === 1);
      const created = await bob.socket.createMatch();
      await ann.socket.joinMatch(created.match_id);
      const [uuid] = created.match_id.split(".");
      const stream = { mode: 5, subject: uuid };
      const players = names((await ask(bob, "list", stream)).presences).sort();
      assert.deepEqual(players, [ann.session.username, bob.session.username].sort());
      const envelope = { stream_data: { stream, data: "to the players" } };
      await ask(bob, "send_raw", stream, { envelope });
      assert.equal((await ann.next("stream_data")).data, "to the players");
      for (const player of [ann, bob, second]) player.leave();
    });
  });
}

test("a script sets a status, and followers hear of it", throngOnly, async () => {
  const star = await newSocketPlayer(server, {});
  const fan = await newSocketPlayer(server, {});
  await fan.socket.followUsers([idOf(star)]);
  await ask(star, "update", { mode: 1, subject: idOf(star) }, { status: "set by the game" });
  const event = await fan.next("status_presence");
  assert.equal(event.joins[0].status?.value ?? event.joins[0].status, "set by the game");
  for (const player of [star, fan]) player.leave();
});

test("frames of streams have the fields of Nakama", async () => {
  const { session } = await newPlayer(server);
  const raw = await RawSocket.open(server, session.token);
  const stream = { mode: 123, subject: session.user_id, label: "x" };
  const rpc = (op, more = {}) =>
    raw.request({ rpc: { id: "stream", payload: JSON.stringify({ op, stream, ...more }) } });
  await rpc("join");
  const { joins, ...event } = await raw.next("stream_presence_event");
  assert.deepEqual(event, { stream });
  const { session_id } = joins[0];
  const { user_id, username } = session;
  assert.deepEqual(joins, [{ user_id, session_id, username, persistence: true }]);
  await rpc("send", { data: "hi" });
  assert.deepEqual(await raw.next("stream_data"), { stream, data: "hi", reliable: true });
  raw.close();
});

test("wrong arguments are refused with Nakama's texts", async () => {
  const player = await newSocketPlayer(server, {});
  const refused = (op, stream, more) =>
    ask(player, op, stream, more).then(
      () => assert.fail("expected a refusal"),
      (error) => error.message ?? JSON.stringify(error),
    );
  for (const [op, stream, more, text] of [
    ["count", { mode: "one" }, {}, "stream mode must be a number"],
    ["list", { mode: 1, subject: "x" }, {}, "stream subject must be a valid identifier"],
    ["join", { mode: 1 }, { session_id: "x" }, "expects valid session id"],
    ["kick", { mode: 100 }, { presence: { user_id: idOf(player) } }, "session_id"],
    ["send", { mode: 100 }, { data: "x", presences: [{ session_id: 1 }] }, "presence session id must be a string"],
    ["send_raw", { mode: 100 }, { envelope: { nonsense: {} } }, "not a valid envelope"],
  ]) {
    const answer = await refused(op, stream, more);
    assert.ok(answer.includes(text), `${op}: ${answer}`);
  }
  const gone = "11111111-2222-4333-8444-555555555555";
  const answer = await refused("join", { mode: 100 }, { session_id: gone });
  assert.match(answer, /session id does not exist|node not found/);
  player.leave();
});
