/**
 * Start, stop and sudden death: matches are told before a polite stop, and what was acknowledged is there
 * after `kill -9`. Each test owns its server process, so nothing here runs against one that somebody else started.
 */
import { describe, test } from "node:test";
import assert from "node:assert/strict";
import { startServer, throngOnly } from "./server.mjs";
import { bearer, clientOf, http, newPlayer, newSocketPlayer, textOf, unique } from "./client.mjs";

const OP_TERMINATE = 99;

describe("stop", throngOnly, () => {
  test("SIGTERM with grace: match_terminate runs, then sockets close, then exit 0", async () => {
    const server = await startServer({ options: { shutdown_grace_sec: 2 } });
    try {
      const player = await newSocketPlayer(server);
      const { match_id } = (await player.client.rpc(player.session, "e2e_create_match", {}))
        .payload;
      await player.socket.joinMatch(match_id);
      await player.next("match_presence");
      const stopped = server.stop();
      const told = await player.next("match_data", (d) => d.op_code === OP_TERMINATE);
      assert.equal(textOf(told), "2");
      await player.next("disconnect", undefined, 10_000);
      await stopped;
    } catch (error) {
      await server.stop().catch(() => {});
      throw error;
    }
  });

  test("SIGTERM without grace closes sockets at once and exits with 0", async () => {
    const server = await startServer();
    const player = await newSocketPlayer(server);
    await server.stop();
    await player.next("disconnect");
  });

  test("accounts are there after a restart, tokens are still good", async () => {
    const first = await startServer();
    const id = unique();
    const session = await clientOf(first).authenticateDevice(id, true, id);
    await first.stop({ keepData: true });
    const second = await startServer({ dataDir: first.dataDir });
    try {
      const again = await clientOf(second).authenticateDevice(id, false);
      assert.equal(again.user_id, session.user_id);
      assert.equal(again.username, id);
      assert.equal(
        (await http(second, "GET", "/v2/account", { headers: bearer(session) })).status,
        200,
      );
    } finally {
      await second.stop();
    }
  });
});

describe("kill -9", throngOnly, () => {
  const PIPES = 32;
  const ACKNOWLEDGED_MIN = 300;

  test("every acknowledged account survives", async () => {
    const first = await startServer();
    const client = clientOf(first);
    const acknowledged = new Map();
    let alive = true;
    let enough;
    const reached = new Promise((done) => (enough = done));
    const register = async () => {
      while (alive) {
        const id = unique();
        const session = await client.authenticateDevice(id).catch(() => undefined);
        if (!session) return;
        acknowledged.set(id, session.user_id);
        if (acknowledged.size >= ACKNOWLEDGED_MIN) enough();
      }
    };
    const pipes = Array.from({ length: PIPES }, register);
    await Promise.race([reached, Promise.all(pipes)]);
    await first.kill(); // In the middle: all pipes have a request under way.
    alive = false;
    await Promise.all(pipes);
    assert.ok(acknowledged.size >= ACKNOWLEDGED_MIN, `only ${acknowledged.size} registered`);

    const second = await startServer({ dataDir: first.dataDir });
    try {
      const again = clientOf(second);
      const lost = [];
      for (const [id, userId] of acknowledged) {
        const session = await again.authenticateDevice(id, false).catch(() => undefined);
        if (session?.user_id !== userId) lost.push(id);
      }
      assert.deepEqual(
        lost,
        [],
        `${lost.length} of ${acknowledged.size} acknowledged accounts are lost`,
      );
    } finally {
      await second.stop();
    }
  });

  test("acknowledged script writes survive", async () => {
    const first = await startServer();
    const { client, session } = await newPlayer(first);
    const writes = [];
    let alive = true;
    const write = async (pipe) => {
      for (let n = 0; alive; n += 1) {
        const key = `key-${pipe}-${n}`;
        const done = await client
          .rpc(session, "e2e_storage", { key, value: { n } })
          .catch(() => undefined);
        if (!done) return;
        writes.push([key, n]);
        if (writes.length >= 60) alive = false;
      }
    };
    const pipes = Array.from({ length: 8 }, (_, pipe) => write(pipe));
    while (alive && writes.length < 50) await Promise.race([...pipes, new Promise(setImmediate)]);
    await first.kill();
    alive = false;
    await Promise.all(pipes);
    const second = await startServer({ dataDir: first.dataDir });
    try {
      const rows = await clientOf(second).rpc(session, "e2e_storage_read", {
        keys: writes.map(([key]) => key),
      });
      assert.deepEqual(
        rows.payload.rows.map(({ key, value }) => [key, value.n]).sort(),
        writes.sort(),
      );
    } finally {
      await second.stop();
    }
  });
});
