/**
 * The bank of scenarios/modules/transfer.lua: many callers move coins between a few accounts at once, each
 * move as one transaction, and none is made or lost.
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { startServer } from "./server.mjs";
import { newPlayer } from "./client.mjs";

const ACCOUNTS = 20;
const COINS = 1_000;
const CALLERS = 8;
const TRANSFERS = 25;

let server;
before(async () => {
  server = await startServer();
});
after(() => server?.stop());

async function total() {
  const { client, session } = await newPlayer(server);
  return (await client.rpc(session, "bench_transfer_total", {})).payload;
}

test("transfers between few accounts neither make nor lose coins", async () => {
  const players = await Promise.all(Array.from({ length: CALLERS }, () => newPlayer(server)));
  const [{ client, session }] = players;
  const filled = await client.rpc(session, "bench_transfer_fill", {
    accounts: ACCOUNTS,
    parts: 1,
    part: 0,
  });
  assert.deepEqual(filled.payload, { made: ACCOUNTS });

  const moves = players.map(async (player) => {
    for (let n = 0; n < TRANSFERS; n += 1) {
      const wish = { accounts: ACCOUNTS, skew: 1.5 };
      const answer = await player.client.rpc(player.session, "bench_transfer", wish);
      assert.deepEqual(answer.payload, { transferred: true });
    }
  });
  await Promise.all(moves);
  assert.deepEqual(await total(), { accounts: ACCOUNTS, coins: ACCOUNTS * COINS });
});
