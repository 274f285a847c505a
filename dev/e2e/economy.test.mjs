/**
 * What a game keeps books with, as published modules use it: wallets and their ledger, updates of everything or
 * nothing, writes that are tried again; and what scripts and clients look up. Players are nakama-js clients.
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { startServer, throngOnly } from "./server.mjs";
import { bearer, FORMATS, http, newPlayer, newSocketPlayer, RawSocket, unique } from "./client.mjs";

let server;
before(async () => (server = await startServer()));
after(() => server?.stop());

const run = async ({ client, session }, id, input = {}) => (await client.rpc(session, id, input)).payload;

describe("wallets", () => {
  test("changes add up, their ledger is read in pages, and nothing falls below zero", async () => {
    const player = await newPlayer(server);
    const first = await run(player, "economy_pay", { changes: { coins: 10, gems: 1 }, metadata: { why: "start" }, keep: true });
    assert.deepEqual(first, { updated: { coins: 10, gems: 1 }, previous: {} });
    const second = await run(player, "economy_pay", { changes: { coins: -4 }, metadata: { why: "sword" }, keep: true });
    assert.deepEqual(second, { updated: { coins: 6, gems: 1 }, previous: { coins: 10, gems: 1 } });
    await run(player, "economy_pay", { changes: { coins: 1 }, keep: false });
    const refused = await run(player, "economy_pay", { changes: { coins: -8, gems: 5 }, keep: true });
    assert.deepEqual(refused, { refused: true });
    const { wallet, items, pages } = await run(player, "economy_books", { limit: 1 });
    assert.deepEqual(wallet, { coins: 7, gems: 1 });
    const whose = { user_id: player.session.user_id };
    const expected = [
      { ...whose, changeset: { coins: 10, gems: 1 }, metadata: { why: "start" } },
      { ...whose, changeset: { coins: -4 }, metadata: { why: "sword" } },
    ];
    // Both may be of one moment: then their order is open.
    const inOrder = items.sort((a, b) => b.changeset.coins - a.changeset.coins);
    assert.deepEqual(inOrder, expected);
    assert.ok(pages >= 2);
    const account = await player.client.getAccount(player.session);
    assert.deepEqual(JSON.parse(account.wallet), { coins: 7, gems: 1 });
  });
});

describe("updates", () => {
  test("of everything or nothing", async () => {
    const player = await newPlayer(server);
    const done = { ok: true, level: 1, object: 1, coins: 5 };
    assert.deepEqual(await run(player, "economy_together", { level: 1, coins: 5 }), done);
    // The wallet refuses, then the object: nothing of the rest has happened.
    assert.deepEqual(await run(player, "economy_together", { level: 2, coins: -6 }), { ...done, ok: false });
    const conflict = { level: 3, coins: 1, version: "*" };
    assert.deepEqual(await run(player, "economy_together", conflict), { ...done, ok: false });
    const { items } = await run(player, "economy_books");
    assert.equal(items.length, 1);
  });

  test("are tried again when another was quicker", throngOnly, async () => {
    const player = await newPlayer(server);
    assert.deepEqual(await run(player, "economy_retry"), { tries: 2, count: 11 });
    assert.deepEqual(await run(player, "economy_retry"), { tries: 2, count: 22 });
  });
});

describe("looked up", () => {
  test("random users: as many as there are, each once, in every call", async () => {
    const players = [];
    for (let count = 0; count < 4; count += 1) players.push(await newPlayer(server));
    for (let round = 0; round < 8; round += 1) {
      const { ids } = await run(players[0], "economy_random_users", { count: 3 });
      assert.equal(ids.length, 3);
      assert.equal(new Set(ids).size, 3);
    }
  });

  test("ids in SQL are text", async () => {
    const player = await newPlayer(server, { username: unique() });
    assert.deepEqual(await run(player, "economy_sql_id"), { id: player.session.user_id, rows: 1 });
  });

  test("matches by query, with an empty label beside it as the guides have it", async () => {
    const player = await newPlayer(server);
    const mode = unique().replaceAll("-", "");
    const label = JSON.stringify({ mode });
    const { match_id } = await run(player, "e2e_create_match", { label });
    const query = `+label.mode:${mode}`;
    for (const asked of [{ query }, { query, label: "" }]) {
      const asks = { limit: 10, authoritative: true, min_size: 0, max_size: 10, ...asked };
      const { matches } = await run(player, "e2e_list_matches", asks);
      assert.deepEqual(Object.values(matches).map((it) => it.match_id), [match_id], JSON.stringify(asked));
      const parameters = new URLSearchParams({ limit: 10, authoritative: true, ...asked });
      const listed = await http(server, "GET", `/v2/match?${parameters}`, { headers: bearer(player.session) });
      assert.deepEqual(listed.json.matches?.map((it) => it.match_id), [match_id], listed.text);
    }
  });
});

describe("a join is answered before its own presence is told", () => {
  test("on the wire, for one who creates and one who joins", throngOnly, async () => {
    const [one, two] = [await newPlayer(server), await newPlayer(server)];
    const creator = await RawSocket.open(server, one.session.token);
    const order = async (socket, message) => {
      socket.send({ cid: "order", ...message });
      const first = await socket.on.take(() => true, "the answer");
      const second = await socket.on.take(() => true, "the presence event");
      assert.equal(first.cid, "order", JSON.stringify([first, second]));
      return [first.match, second.match_presence_event];
    };
    const [created, told] = await order(creator, { match_create: {} });
    assert.equal(told.joins[0].user_id, one.session.user_id);
    const joiner = await RawSocket.open(server, two.session.token);
    const [joined, event] = await order(joiner, { match_join: { match_id: created.match_id } });
    assert.equal(joined.self.user_id, two.session.user_id);
    assert.deepEqual(event.joins.map((it) => it.user_id), [two.session.user_id]);
    creator.close();
    joiner.close();
  });

  for (const format of FORMATS) {
    test(`nakama-js, ${format}: the promise has the match, then the event comes`, async () => {
      const player = await newSocketPlayer(server, { format });
      const match = await player.socket.createMatch();
      assert.equal(match.self.user_id, player.session.user_id);
      const event = await player.next("match_presence");
      assert.equal(event.match_id, match.match_id);
      assert.equal(event.joins[0].user_id, player.session.user_id);
      player.leave();
    });
  }
});
