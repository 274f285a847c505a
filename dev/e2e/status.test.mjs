/**
 * Who is online: follow, unfollow, status updates and the events that followers get, in both socket formats.
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { startServer } from "./server.mjs";
import { FORMATS, newPlayer, newSocketPlayer, openSocket, RawSocket } from "./client.mjs";

let server;
before(async () => {
  server = await startServer();
});
after(() => server?.stop());

const statusOf = (presence) => presence.status?.value ?? presence.status ?? "";
const isAbout = (p) => (e) =>
  [...(e.joins ?? []), ...(e.leaves ?? [])].some((x) => x.user_id === p.session.user_id);

for (const format of FORMATS) {
  describe(`${format}: status`, () => {
    test("own event on connect, then updates, then offline", async () => {
      const { socket, session, next, leave } = await newSocketPlayer(server, {
        format,
        status: true,
      });
      const online = await next("status_presence");
      assert.equal(online.joins.length, 1);
      assert.equal(online.joins[0].user_id, session.user_id);
      assert.equal(online.joins[0].username, session.username);
      assert.equal(statusOf(online.joins[0]), "");
      await socket.updateStatus("in a match");
      const update = await next("status_presence");
      assert.equal(statusOf(update.joins[0]), "in a match");
      assert.equal(statusOf(update.leaves[0]), "");
      await socket.updateStatus();
      const offline = await next("status_presence");
      assert.equal(offline.leaves[0].user_id, session.user_id);
      assert.ok(!offline.joins?.length);
      leave();
    });

    test("without status=true nobody is online until a status is set", async () => {
      const quiet = await newSocketPlayer(server, { format });
      const follower = await newSocketPlayer(server, { format });
      const before = await follower.socket.followUsers([quiet.session.user_id]);
      assert.deepEqual(before.presences ?? [], []);
      await quiet.socket.updateStatus("hello");
      const event = await follower.next("status_presence", isAbout(quiet));
      assert.equal(statusOf(event.joins[0]), "hello");
      quiet.leave();
      follower.leave();
    });

    test("followers see what is, what changes and who leaves", async () => {
      const star = await newSocketPlayer(server, { format, status: true });
      await star.socket.updateStatus("first");
      const fan = await newSocketPlayer(server, { format });
      const { presences } = await fan.socket.followUsers([star.session.user_id]);
      assert.equal(presences.length, 1);
      assert.equal(presences[0].user_id, star.session.user_id);
      assert.equal(statusOf(presences[0]), "first");
      await star.socket.updateStatus("second");
      const update = await fan.next("status_presence", isAbout(star));
      assert.equal(statusOf(update.joins[0]), "second");
      star.leave();
      const left = await fan.next("status_presence", isAbout(star));
      assert.equal(left.leaves[0].user_id, star.session.user_id);
      assert.ok(!left.joins?.length);
      const back = await openSocket(star.client, star.session, { format, status: true });
      const joined = await fan.next("status_presence", isAbout(star));
      assert.equal(joined.joins[0].user_id, star.session.user_id);
      back.leave();
      fan.leave();
    });

    test("who unfollows hears no more", async () => {
      const star = await newSocketPlayer(server, { format, status: true });
      const other = await newSocketPlayer(server, { format, status: true });
      const fan = await newSocketPlayer(server, { format });
      await fan.socket.followUsers([star.session.user_id, other.session.user_id]);
      await fan.socket.unfollowUsers([star.session.user_id]);
      await star.socket.updateStatus("unheard");
      await star.next("status_presence", (e) => e.joins?.some((p) => statusOf(p) === "unheard"));
      await other.socket.updateStatus("the fence");
      const event = await fan.next("status_presence");
      assert.equal(event.joins[0].user_id, other.session.user_id);
      for (const p of [star, other, fan]) p.leave();
    });

    test("two sockets of one user are two presences", async () => {
      const star = await newSocketPlayer(server, { format, status: true });
      const second = await openSocket(star.client, star.session, { format, status: true });
      const fan = await newSocketPlayer(server, { format });
      const { presences } = await fan.socket.followUsers([star.session.user_id]);
      assert.equal(presences.length, 2);
      assert.equal(new Set(presences.map((p) => p.session_id)).size, 2);
      for (const p of [star, second, fan]) p.leave();
    });
  });
}

describe("frames of status", () => {
  const open = async (query) => {
    const { session } = await newPlayer(server);
    return { session, raw: await RawSocket.open(server, session.token, query) };
  };

  test("every spelling of true", async () => {
    for (const status of ["true", "True", "1", "t"]) {
      const { session, raw } = await open({ status });
      const event = await raw.next("status_presence_event");
      const { session_id } = event.joins[0];
      assert.deepEqual(event, {
        joins: [{ user_id: session.user_id, session_id, username: session.username, status: "" }],
      });
      raw.close();
    }
  });

  test("anything else is false", async () => {
    const { raw } = await open({ status: "yes" });
    await raw.request({ ping: {} });
    assert.deepEqual(raw.on.left(), []);
    raw.close();
  });

  test("acks are bare, an empty status is a status", async () => {
    const { session, raw } = await open();
    assert.deepEqual(await raw.request({ status_update: { status: "" } }), { cid: "1" });
    const event = await raw.next("status_presence_event");
    assert.equal(event.joins[0].status, "");
    assert.deepEqual(await raw.request({ status_update: {} }), { cid: "2" });
    assert.equal((await raw.next("status_presence_event")).leaves[0].user_id, session.user_id);
    assert.deepEqual(await raw.request({ status_unfollow: { user_ids: [session.user_id] } }), {
      cid: "3",
    });
    raw.close();
  });

  test("follow by name; ids that nobody has are ignored, broken ones refused", async () => {
    const star = await open({ status: "true" });
    const fan = await open();
    const byName = await fan.raw.request({ status_follow: { usernames: [star.session.username] } });
    assert.equal(byName.status.presences[0].user_id, star.session.user_id);
    const nobody = await fan.raw.request({
      status_follow: { user_ids: ["11111111-2222-4333-8444-555555555555"] },
    });
    assert.deepEqual(nobody, { cid: "2", status: {} });
    const broken = await fan.raw.request({ status_follow: { user_ids: ["nonsense"] } });
    assert.equal(broken.error.code, 3);
    star.raw.close();
    fan.raw.close();
  });

  test("a status that is too long is refused", async () => {
    const { raw } = await open();
    const { error } = await raw.request({ status_update: { status: "x".repeat(2049) } });
    assert.equal(error.code, 3);
    assert.deepEqual(await raw.request({ status_update: { status: "x".repeat(2048) } }), {
      cid: "2",
    });
    raw.close();
  });
});
