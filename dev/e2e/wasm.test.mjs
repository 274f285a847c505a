/**
 * Guest code in WebAssembly through nakama-js: the example games in Rust and Go, built here, each on a server of its
 * own beside Lua: RPCs, a before-hook, storage, a match with players, a loop that never ends.
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startServer, throngOnly } from "./server.mjs";
import { newPlayer, newSocketPlayer, textOf } from "./client.mjs";
import { buildGo, buildRust, missingGo, missingRust } from "./guests.mjs";

/** How the example of a language is built to a file, why it cannot be, and the function that never ends. */
const LANGUAGES = {
  rust: {
    build: (file) => buildRust("arena", file),
    missing: missingRust,
    // Which of its functions loops is the compiler's choice: it may have put one into another.
    loop: /arena::/,
  },
  go: { build: buildGo, missing: missingGo, loop: /main\.spinForever/ },
};

const refusal = (promise) =>
  promise.then(
    () => assert.fail("expected a refusal"),
    (response) => response.json(),
  );

for (const [language, { build, loop, missing }] of Object.entries(LANGUAGES)) {
  const skip = throngOnly.skip ?? missing();
  describe(language, skip ? { skip } : {}, () => {
    let server;
    let player;
    let folder;
    before(async () => {
      if (skip) return;
      folder = mkdtempSync(join(tmpdir(), "throng-wasm-"));
      build(join(folder, "arena.wasm"));
      server = await startServer({
        options: { "runtime.path": folder, "runtime.call_budget_ms": 500, "match.callback_budget_ms": 250 },
      });
      player = await newPlayer(server);
    });
    after(async () => {
      await server?.stop();
      if (folder) rmSync(folder, { recursive: true });
    });
    const rpc = async (id, input = {}) => (await player.client.rpc(player.session, id, input)).payload;

    test("an RPC sees who calls, and answers", async () => {
      const input = { text: "ü", list: [1, 2.5, null] };
      assert.deepEqual(await rpc("echo", input), { user: player.session.user_id, echo: input });
    });

    test("storage is written and read", async () => {
      const value = { snake_case: { inner: [1] }, text: "kept" };
      assert.deepEqual(await rpc("store", value), { same: true, value });
    });

    test("an error has the game's code and text", async () => {
      const { code, message } = await refusal(rpc("fail"));
      assert.deepEqual([code, message], [9, "not today"]);
    });

    test("a before-hook changes and refuses", async () => {
      await player.client.updateAccount(player.session, { display_name: "ann" });
      assert.equal((await player.client.getAccount(player.session)).user.display_name, "ANN");
      const long = { display_name: "a".repeat(21) };
      const { code, message } = await refusal(player.client.updateAccount(player.session, long));
      assert.deepEqual([code, message], [3, "name too long"]);
    });

    test("a loop that never ends is stopped, and named", async () => {
      const { code, message } = await refusal(rpc("spin"));
      assert.equal(code, 13);
      assert.match(message, /^arena\.wasm@[0-9a-f]{8}: .*: script used up its 500 ms \(runtime\.call_budget_ms\)$/);
      assert.match(message, loop);
      assert.equal((await rpc("echo", { still: "here" })).echo.still, "here");
    });

    test("players meet in a match; one that loops ends alone", async () => {
      const { match_id: id } = await rpc("arena");
      const { match_id: other } = await rpc("arena");
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

      await two.socket.sendMatchState(id, 1, "hello");
      const seen = await one.next("match_data", (d) => d.op_code === 1);
      assert.equal(textOf(seen), "hello");
      assert.equal(seen.presence.user_id, two.session.user_id);
      await one.socket.sendMatchState(id, 2, new Uint8Array([0, 255, 1]));
      const bytes = await one.next("match_data", (d) => d.op_code === 2);
      assert.deepEqual([...bytes.data], [0, 255, 1]);

      // The other match is stopped, and its player with it; this one plays on.
      await guest.socket.sendMatchState(other, 3, "");
      await guest.next("disconnect");
      await two.socket.sendMatchState(id, 1, "still here");
      assert.equal(textOf(await one.next("match_data", (d) => d.op_code === 1)), "still here");
      [one, two].forEach((p) => p.leave());
    });
  });
}
