/**
 * The match of the example game, which is the same in every language: players meet in it, and one that loops ends
 * alone. The games are in `examples/` and `javascript/`; what is particular to a language stands in its test.
 *
 * In: a server, and how a match is made. Out: nothing; it asserts.
 */
import assert from "node:assert/strict";
import { newSocketPlayer, textOf } from "./client.mjs";

/** Two play in one match and a third in another; `make` makes a match and gives its id. */
export async function playArenas(server, make) {
  const [id, other] = [await make(), await make()];
  const [one, two, guest] = await Promise.all([1, 2, 3].map(() => newSocketPlayer(server)));
  await assert.rejects(guest.socket.joinMatch(id, undefined, { ticket: "forged" }), {
    message: "forged ticket",
  });
  const match = await one.socket.joinMatch(id);
  assert.equal(match.label, '{"game":"arena"}');
  const welcome = JSON.parse(textOf(await one.next("match_data", (d) => d.op_code === 50)));
  assert.deepEqual(welcome, { joined: 1, level: 3 });
  await two.socket.joinMatch(id);
  await guest.socket.joinMatch(other);

  await two.socket.sendMatchState(id, 2, "hello");
  const seen = await one.next("match_data", (d) => d.op_code === 2);
  assert.equal(textOf(seen), "hello");
  assert.equal(seen.presence.user_id, two.session.user_id);
  await one.socket.sendMatchState(id, 1, new Uint8Array([0, 255, 1]));
  const bytes = await one.next("match_data", (d) => d.op_code === 1);
  assert.deepEqual([...bytes.data], [0, 255, 1]);

  // The other match is stopped, and its player with it; this one plays on.
  await guest.socket.sendMatchState(other, 3, "");
  await guest.next("disconnect");
  await two.socket.sendMatchState(id, 2, "still here");
  assert.equal(textOf(await one.next("match_data", (d) => d.op_code === 2)), "still here");
  assert.deepEqual(two.on.left((event) => event.value.op_code === 1), [], "what goes back to the sender goes to nobody else");
  [one, two].forEach((p) => p.leave());
}
