/**
 * Friends: invitations, friendships, blocks and lists, by calls of clients, by functions of scripts, and with hooks
 * around the calls. Players are nakama-js clients.
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { startServer } from "./server.mjs";
import { bearer, http, newPlayer, newSocketPlayer, refusal, unique } from "./client.mjs";

const [FRIEND, SENT, RECEIVED, BLOCKED] = [0, 1, 2, 3];

let server;
before(async () => (server = await startServer()));
after(() => server?.stop());

/** Names and states of somebody's list, in its order. */
async function friendsOf({ client, session }, state) {
  const { friends } = await client.listFriends(session, state);
  return (friends ?? []).map(({ user, state }) => [user.username, state]);
}
const edgesOf = async ({ client, session }) => (await client.getAccount(session)).user.edge_count ?? 0;
const nameOf = (player) => player.session.username;
const idOf = (player) => player.session.user_id;
const add = (player, ...others) => player.client.addFriends(player.session, others.map(idOf));
const run = async ({ client, session }, id, input = {}) => (await client.rpc(session, id, input)).payload;

describe("two players", () => {
  test("become friends by an invitation and its answer, and part again", async () => {
    const [ann, bob] = [await newPlayer(server), await newPlayer(server)];
    assert.equal(await ann.client.addFriends(ann.session, undefined, [nameOf(bob)]), true);
    assert.deepEqual(await friendsOf(ann), [[nameOf(bob), SENT]]);
    assert.deepEqual(await friendsOf(bob), [[nameOf(ann), RECEIVED]]);
    // Again: nothing changes.
    await add(ann, bob);
    assert.deepEqual([await edgesOf(ann), await edgesOf(bob)], [1, 1]);
    await add(bob, ann);
    assert.deepEqual(await friendsOf(ann), [[nameOf(bob), FRIEND]]);
    assert.deepEqual(await friendsOf(bob, FRIEND), [[nameOf(ann), FRIEND]]);
    assert.deepEqual(await friendsOf(bob, SENT), []);
    await ann.client.deleteFriends(ann.session, [idOf(bob)]);
    assert.deepEqual([await friendsOf(ann), await friendsOf(bob)], [[], []]);
    assert.deepEqual([await edgesOf(ann), await edgesOf(bob)], [0, 0]);
  });

  test("see of each other what others see, and whether the other one is online", async () => {
    const ann = await newPlayer(server);
    const bob = await newSocketPlayer(server, { status: true });
    const query = `ids=${idOf(bob)}&metadata=${encodeURIComponent('{"met":"arena"}')}`;
    await http(server, "POST", `/v2/friend?${query}`, { headers: bearer(ann.session) });
    const [{ user }] = (await ann.client.listFriends(ann.session)).friends;
    assert.deepEqual([user.id, user.online, user.edge_count], [idOf(bob), true, 1]);
    // Not all of it reaches users of nakama-js 2.8.
    const { status, json } = await http(server, "GET", "/v2/friend", { headers: bearer(ann.session) });
    const [{ metadata, update_time }] = json.friends;
    assert.equal(status, 200);
    assert.ok(Math.abs(Date.now() - Date.parse(update_time)) < 60_000);
    assert.deepEqual(JSON.parse(metadata), { met: "arena" });
    bob.leave();
  });

  test("who blocks is not invited, and does not invite until the block is lifted", async () => {
    const [ann, bob] = [await newPlayer(server), await newPlayer(server)];
    await add(ann, bob);
    await add(bob, ann);
    await ann.client.blockFriends(ann.session, [idOf(bob)]);
    assert.deepEqual([await friendsOf(ann), await friendsOf(bob)], [[[nameOf(bob), BLOCKED]], []]);
    await add(bob, ann);
    await add(ann, bob);
    await bob.client.deleteFriends(bob.session, [idOf(ann)]);
    assert.deepEqual([await friendsOf(ann), await friendsOf(bob)], [[[nameOf(bob), BLOCKED]], []]);
    await ann.client.deleteFriends(ann.session, [idOf(bob)]);
    await add(bob, ann);
    assert.deepEqual(await friendsOf(ann), [[nameOf(bob), RECEIVED]]);
    // Of a deleted account nothing is left.
    await bob.client.deleteAccount(bob.session);
    assert.deepEqual([await friendsOf(ann), await edgesOf(ann)], [[], 0]);
  });
});

describe("lists", () => {
  test("come in pages, by state and age", async () => {
    const ann = await newPlayer(server);
    const others = await Promise.all(Array.from({ length: 5 }, () => newPlayer(server)));
    for (const other of others) await add(ann, other);
    await add(others[4], ann);
    await ann.client.blockFriends(ann.session, undefined, [nameOf(others[0])]);
    const expected = [others[4], others[1], others[2], others[3], others[0]].map(nameOf);
    const seen = [];
    let cursor;
    do {
      const page = await ann.client.listFriends(ann.session, undefined, 2, cursor);
      assert.ok(page.friends.length <= 2);
      seen.push(...page.friends.map(({ user }) => user.username));
      cursor = page.cursor;
    } while (cursor);
    assert.deepEqual(seen, expected);
  });

  test("of friends of friends leave out oneself and who is a friend already", async () => {
    const [ann, bob, cid, dan] = await Promise.all(Array.from({ length: 4 }, () => newPlayer(server)));
    const befriend = async (one, other) => {
      await add(one, other);
      await add(other, one);
    };
    await befriend(ann, bob);
    await befriend(ann, cid);
    await befriend(bob, cid);
    await befriend(bob, dan);
    await befriend(cid, dan);
    const { friends_of_friends: found } = await ann.client.listFriendsOfFriends(ann.session);
    assert.deepEqual(
      found.map(({ referrer, user }) => [referrer, user.username]).sort(),
      [bob, cid].map((by) => [idOf(by), nameOf(dan)]).sort(),
    );
    const first = await ann.client.listFriendsOfFriends(ann.session, 1);
    const second = await ann.client.listFriendsOfFriends(ann.session, 1, first.cursor);
    assert.notEqual(first.friends_of_friends[0].referrer, second.friends_of_friends[0].referrer);
  });
});

test("what cannot be is refused with Nakama's words", async () => {
  const ann = await newPlayer(server);
  const { client, session } = ann;
  const refused = async (promise) => (await refusal(promise)).message;
  assert.equal(await refused(add(ann, ann)), "Cannot add self as friend.");
  assert.equal(await refused(client.addFriends(session, undefined, [nameOf(ann)])), "Cannot add self as friend.");
  assert.equal(await refused(client.blockFriends(session, [idOf(ann)])), "Cannot block self.");
  assert.equal(await refused(client.deleteFriends(session, [idOf(ann)])), "Cannot delete self.");
  assert.equal(await refused(client.addFriends(session, ["me"])), "Invalid user ID 'me'.");
  assert.equal(
    await refused(client.addFriends(session, undefined, [unique()])),
    "No valid ID or username was provided.",
  );
  assert.equal(
    await refused(client.listFriends(session, undefined, 1001)),
    "Invalid limit - limit must be between 1 and 1000.",
  );
  assert.equal(await refused(client.listFriends(session, 4)), "Invalid state - state must be between 0 and 3.");
  assert.equal(await refused(client.listFriends(session, undefined, 1, "x")), "Cursor is invalid.");
  const empty = await http(server, "POST", "/v2/friend", { headers: bearer(session) });
  assert.equal(empty.status, 200);
});

describe("scripts", () => {
  test("act for players and see their friends as tables", async () => {
    const [ann, bob] = [await newPlayer(server), await newPlayer(server)];
    const { list, status } = await run(ann, "friends_pair", { other: idOf(bob), name: nameOf(bob) });
    assert.deepEqual(list, [{ name: nameOf(bob), state: FRIEND, metadata: { team: "red", since: 1 } }]);
    assert.deepEqual(status, [FRIEND]);
    assert.deepEqual(await friendsOf(bob), [[nameOf(ann), FRIEND]]);
    assert.deepEqual(await run(ann, "friends_part", { other: idOf(bob) }), { blocked: [BLOCKED], list: 0 });
    assert.deepEqual(await friendsOf(bob), []);
  });

  test("hook the calls", async () => {
    const [ann, bob, cid] = await Promise.all([0, 1, 2].map(() => newPlayer(server)));
    // nakama-js 2.8 does not send metadata.
    const invite = (metadata) => {
      const query = `ids=${idOf(bob)}&metadata=${encodeURIComponent(JSON.stringify(metadata))}`;
      return http(server, "POST", `/v2/friend?${query}`, { headers: bearer(ann.session) });
    };
    assert.equal((await invite({ hooked: "refuse" })).status, 403);
    // The hook invites somebody else.
    assert.equal((await invite({ hooked: idOf(cid) })).status, 200);
    assert.deepEqual(await friendsOf(ann), [[nameOf(cid), SENT]]);
    const { seen } = await run(ann, "friends_seen");
    assert.deepEqual(seen, [{ name: nameOf(cid), state: SENT }]);
  });
});
