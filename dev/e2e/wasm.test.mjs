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
import { playArenas } from "./arena.mjs";
import { newPlayer, refusal } from "./client.mjs";
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

    test("players meet in a match; one that loops ends alone", () =>
      playArenas(server, async () => (await rpc("arena")).match_id));
  });
}
