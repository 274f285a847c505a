/**
 * Notifications: of scripts and of friends, on every socket of a user and for who connects later, with pages that go on
 * from a cursor, and with hooks around the calls. Players are nakama-js clients.
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { startServer } from "./server.mjs";
import { FORMATS, bearer, http, newPlayer, newSocketPlayer, openSocket, refusal, until } from "./client.mjs";

const SYSTEM = "00000000-0000-0000-0000-000000000000";

let server;
before(async () => (server = await startServer()));
after(() => server?.stop());

const idOf = (player) => player.session.user_id;
const run = async ({ client, session }, id, input = {}) => (await client.rpc(session, id, input)).payload;
const notify = (to, subject, more = {}) => run(to, "notify", { to: idOf(to), subject, ...more });
/** The subjects of what is kept for a player. */
const kept = async ({ client, session }) =>
  (await client.listNotifications(session, 100)).notifications.map(({ subject }) => subject);

describe("scripts", () => {
  for (const format of FORMATS) {
    test(`notify every socket of a user at once, in ${format}`, async () => {
      const ann = await newSocketPlayer(server, { format });
      const second = await openSocket(ann.client, ann.session, { format, status: true });
      const bob = await newSocketPlayer(server, { format });
      await notify(ann, "hello", { content: { coins: [1, 2] }, code: 42 });
      for (const socket of [ann, second]) {
        const one = await socket.next("notification");
        assert.equal(one.subject, "hello");
        assert.deepEqual(one.content, { coins: [1, 2] });
        assert.equal(one.code, 42);
        assert.equal(one.sender_id ?? one.senderId, SYSTEM);
        assert.ok(!one.persistent && one.id);
      }
      await notify(bob, "for bob", { sender: idOf(ann), persistent: true });
      const one = await bob.next("notification");
      assert.equal(one.sender_id ?? one.senderId, idOf(ann));
      assert.equal(one.persistent, true);
      assert.deepEqual(ann.on.left(({ name }) => name === "notification"), []);
      assert.deepEqual(await kept(ann), []);
      for (const player of [ann, second, bob]) player.leave();
    });
  }

  test("keep notifications for who connects later", async () => {
    const ann = await newPlayer(server);
    await notify(ann, "first", { content: { a: 1 }, persistent: true });
    await notify(ann, "not kept");
    await run(ann, "notify_many", {
      list: ["second", "third"].map((subject) => ({
        user_id: idOf(ann), subject, content: {}, code: 5, persistent: true,
      })),
    });
    const socket = await openSocket(ann.client, ann.session);
    const { client, session } = ann;
    assert.equal((await client.listNotifications(session)).notifications.length, 1);
    const page = await client.listNotifications(session, 2);
    assert.deepEqual(page.notifications.map((it) => [it.subject, it.content, it.code, it.persistent]), [
      ["first", { a: 1 }, 1, true],
      ["second", {}, 5, true],
    ]);
    assert.equal(page.notifications[0].sender_id, undefined);
    assert.ok(Math.abs(Date.now() - Date.parse(page.notifications[0].create_time)) < 60_000);
    const rest = await client.listNotifications(session, 2, page.cacheable_cursor);
    assert.deepEqual(rest.notifications.map(({ subject }) => subject), ["third"]);
    // The last cursor is good for what comes later.
    const none = await client.listNotifications(session, 2, rest.cacheable_cursor);
    assert.deepEqual([none.notifications, none.cacheable_cursor], [[], rest.cacheable_cursor]);
    await notify(ann, "fourth", { persistent: true });
    const later = await client.listNotifications(session, 2, none.cacheable_cursor);
    assert.deepEqual(later.notifications.map(({ subject }) => subject), ["fourth"]);
    // At the connection nothing came by itself.
    assert.equal((await socket.next("notification")).subject, "fourth");
    assert.deepEqual(socket.on.left(), []);
    await client.deleteNotifications(session, [page.notifications[1].id, later.notifications[0].id, SYSTEM]);
    assert.deepEqual(await kept(ann), ["first", "third"]);
    socket.leave();
  });

  test("notify everybody, once for all", async () => {
    const [ann, bob] = await Promise.all([0, 1].map(() => newSocketPlayer(server)));
    await run(ann, "notify_all", { subject: "season", persistent: true });
    for (const player of [ann, bob]) {
      const one = await player.next("notification", ({ subject }) => subject === "season");
      assert.deepEqual([one.code, one.persistent], [7, true]);
      await until(async () => (await kept(player)).includes("season"));
    }
    const { notifications } = await ann.client.listNotifications(ann.session, 100);
    await ann.client.deleteNotifications(ann.session, notifications.map(({ id }) => id));
    assert.deepEqual([await kept(ann), await kept(bob)], [[], ["season"]]);
    for (const player of [ann, bob]) player.leave();
  });

  test("read, change and delete what is kept", async () => {
    const ann = await newPlayer(server);
    const { text, ...seen } = await run(ann, "notify_own");
    // PostgreSQL writes JSON in its own way.
    assert.deepEqual(JSON.parse(text), { number: 1 });
    assert.deepEqual(seen, {
      pages: [2, 1],
      sender: true,
      found: { subject: "changed", number: 10, code: 1 },
      left: 1,
    });
    assert.deepEqual(await kept(ann), ["changed"]);
  });

  test("hook the calls", async () => {
    const ann = await newPlayer(server);
    const { client, session } = ann;
    for (const subject of ["one", "two"]) await notify(ann, subject, { persistent: true });
    assert.equal((await refusal(client.listNotifications(session, 99))).message, "not so many");
    const { notifications } = await client.listNotifications(session, 2);
    const ids = notifications.map(({ id }) => id);
    await client.deleteNotifications(session, ids);
    const read = () => client.readStorageObjects(session, {
      object_ids: [{ collection: "notifications", key: "deleted", user_id: session.user_id }],
    });
    await until(async () => (await read()).objects.length > 0);
    assert.deepEqual((await read()).objects[0].value, { ids });
  });
});

test("friends are told of one another, now and later", async () => {
  const [ann, bob] = [await newPlayer(server), await newSocketPlayer(server)];
  const [toAnn, toBob] = [ann, bob].map(({ session }) => [session.user_id]);
  await ann.client.addFriends(ann.session, toBob);
  const request = await bob.next("notification");
  assert.deepEqual(
    [request.code, request.subject, request.content, request.sender_id, request.persistent],
    [-2, `${ann.session.username} wants to add you as a friend`, { username: ann.session.username }, idOf(ann), true],
  );
  await bob.client.addFriends(bob.session, toAnn);
  await ann.client.deleteFriends(ann.session, toBob);
  assert.equal((await bob.next("notification")).code, -9);
  assert.deepEqual(await kept(ann), [`${bob.session.username} accepted your friend request`]);
  assert.deepEqual(await kept(bob), [
    `${ann.session.username} wants to add you as a friend`,
    `${ann.session.username} removed you as a friend`,
  ]);
  bob.leave();
});

test("what cannot be is refused", async () => {
  const { client, session } = await newPlayer(server);
  const { message } = await refusal(client.listNotifications(session, 101));
  assert.equal(message, "Invalid limit - limit must be between 1 and 100.");
  assert.notEqual((await refusal(client.listNotifications(session, 1, "x"))).code, undefined);
  const empty = await http(server, "DELETE", "/v2/notification", { headers: bearer(session) });
  assert.equal(empty.status, 200);
});
