/**
 * Objects of storage through nakama-js, as games use them: lists of an owner's objects, its own and another one's, and of everybody's,
 * page by page with the cursors that are given, which are opaque to the SDK. What the rules are is tested in `edge/store`.
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { startServer, throngOnly } from "./server.mjs";
import { newPlayer, refusal, unique } from "./client.mjs";

let server;
let ann;
let bob;
before(async () => {
  server = await startServer();
  [ann, bob] = await Promise.all([newPlayer(server), newPlayer(server)]);
});
after(() => server?.stop());

/** The keys of all pages of two objects each. */
async function walked({ client, session }, collection, owner) {
  const keys = [];
  let cursor;
  do {
    const page = await client.listStorageObjects(session, collection, owner, 2, cursor);
    keys.push(...page.objects.map(({ key }) => key));
    cursor = page.cursor;
  } while (cursor);
  return keys.sort();
}

test("lists are walked page by page, each caller's with what it may read", async () => {
  const collection = unique();
  for (const [{ client, session }, prefix] of [[ann, "a"], [bob, "b"]]) {
    const objects = [2, 1, 0, 2, 1, 0, 2].map((permission_read, at) => {
      return { collection, key: `${prefix}${at}`, value: { at }, permission_read, permission_write: 1 };
    });
    await client.writeStorageObjects(session, objects);
  }
  assert.deepEqual(await walked(ann, collection, ann.session.user_id), ["a0", "a1", "a3", "a4", "a6"]);
  assert.deepEqual(await walked(ann, collection, bob.session.user_id), ["b0", "b3", "b6"]);
  assert.deepEqual(await walked(ann, collection), ["a0", "a3", "a6", "b0", "b3", "b6"]);
});

test("a cursor of another list is refused", throngOnly, async () => {
  const collection = unique();
  const objects = ["x", "y", "z"].map((key) => ({ collection, key, value: {}, permission_read: 2 }));
  for (const { client, session } of [ann, bob]) await client.writeStorageObjects(session, objects);
  const list = (owner, cursor) => ann.client.listStorageObjects(ann.session, collection, owner, 1, cursor);
  const { cursor } = await list(ann.session.user_id);
  assert.equal((await list(ann.session.user_id, cursor)).objects[0].key, "y");
  const { status, code, message } = await refusal(list(bob.session.user_id, cursor));
  assert.deepEqual([status, code, message], [400, 3, "Malformed cursor was used."]);
});
