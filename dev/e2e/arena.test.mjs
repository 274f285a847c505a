/**
 * The example game of `examples/` through nakama-js, in Lua, JavaScript, Rust and Go, each on a server of its own: RPCs,
 * a before-hook, storage, a path search, a match with players, a loop that never ends. The rules are the same to the
 * byte: what differs is how an error names its place.
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startServer, throngOnly } from "./server.mjs";
import { playArenas } from "./arena_match.mjs";
import { bearer, http, newPlayer, newSocketPlayer, refusal, until } from "./client.mjs";
import { GAMES } from "./guests.mjs";
import { freePort } from "./attack/rig.mjs";

/** Where the function that never ends is said to be. Of wasm: which of its functions loops is the compiler's choice. */
const LOOPS = {
  lua: /^arena_calls\.lua:\d+: /,
  javascript: /^index\.js:\d+: /,
  rust: /^arena\.wasm@[0-9a-f]{8}: .*arena::.*: /,
  go: /^arena\.wasm@[0-9a-f]{8}: main\.spinForever: /,
};

/** The same in the log, of an error that the game words itself, too. */
const PLACES = {
  lua: /^arena_calls\.lua:\d+/,
  javascript: /index\.js:\d+/,
  rust: /^arena\.wasm@[0-9a-f]{8}: (.*\n)*.*arena::/,
  go: /^arena\.wasm@[0-9a-f]{8}: main\.\w+/,
};

for (const [language, { build, missing }] of Object.entries(GAMES)) {
  const skip = throngOnly.skip ?? missing();
  describe(language, skip ? { skip } : {}, () => {
    let server;
    let player;
    let folder;
    let metricsPort;
    before(async () => {
      if (skip) return;
      folder = mkdtempSync(join(tmpdir(), "throng-arena-"));
      build(folder);
      metricsPort = await freePort();
      server = await startServer({
        options: {
          "runtime.path": folder, "runtime.call_budget_ms": 500, "match.callback_budget_ms": 250,
          "metrics.prometheus_port": metricsPort, "logger.level": "debug",
        },
      });
      player = await newPlayer(server);
    });
    after(async () => {
      await server?.stop();
      if (folder) rmSync(folder, { recursive: true });
    });
    /** The answer's very text. */
    const call = async (id, text) => {
      const headers = bearer(player.session);
      const answer = await http(server, "POST", `/v2/rpc/${id}?unwrap`, { headers, body: text });
      return answer.status === 200 ? answer.text : { code: answer.json.code, message: answer.json.message };
    };
    const rpc = async (id, input = {}) => (await player.client.rpc(player.session, id, input)).payload;

    test("an RPC sees who calls, and answers", async () => {
      const answer = await call("echo", '{"list":[1,2.5,true],"text":"ü"}');
      assert.equal(answer, `{"echo":{"list":[1,2.5,true],"text":"ü"},"user":"${player.session.user_id}"}`);
      assert.deepEqual(await call("echo", "{"), { code: 3, message: "the payload is not JSON" });
    });

    test("storage is written and read", async () => {
      const text = '{"snake_case":{"inner":[1]}}';
      assert.equal(await call("store", text), `{"same":true,"value":${text}}`);
    });

    test("an error has the game's code and text", async () => {
      const { code, message } = await refusal(rpc("fail"));
      assert.deepEqual([code, message], [9, "not today"]);
    });

    test("the log has the module, the version, and the function or line of an error", async () => {
      const lines = server.heard(/rpc (failed|answered)/);
      await refusal(rpc("fail"));
      await refusal(rpc("spin"));
      // The line of an earlier call may come late.
      const named = () => new Set(lines.map((line) => JSON.parse(line).id));
      await until(() => named().size === 2).catch(() => assert.fail(lines.join("\n")));
      for (const line of lines.map((line) => JSON.parse(line))) {
        assert.equal(line.version, 1);
        assert.match(line.location, PLACES[language], JSON.stringify(line));
      }
    });

    test("the way through the maze has 2,046 steps", async () => {
      assert.equal(await call("path", ""), '{"seen":2047,"steps":2046}');
    });

    test("a before-hook changes and refuses", async () => {
      await player.client.updateAccount(player.session, { display_name: "ünn".repeat(6) });
      assert.equal((await player.client.getAccount(player.session)).user.display_name, "ÜNN".repeat(6));
      const long = { display_name: "ü".repeat(21) };
      const { code, message } = await refusal(player.client.updateAccount(player.session, long));
      assert.deepEqual([code, message], [3, "name too long"]);
    });

    test("a loop that never ends is stopped, and named", async () => {
      const { code, message } = await refusal(rpc("spin"));
      assert.equal(code, 13);
      assert.match(message, /: script used up its 500 ms \(runtime\.call_budget_ms\)$/);
      assert.match(message, LOOPS[language]);
      const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
      assert.match(text, /^nakama_guest_errors\{.*version="1".*\} [12]$/m);
      assert.deepEqual((await rpc("echo", { still: "here" })).echo, { still: "here" });
    });

    test("players meet in a match; one that loops ends alone", () =>
      playArenas(server, async () => (await rpc("arena")).match_id));

    test("ten players have a match, and the eleventh another one", async () => {
      const players = await Promise.all(Array.from({ length: 11 }, () => newSocketPlayer(server)));
      const full = await rpc("arena");
      for (const { socket } of players.slice(0, 10)) await socket.joinMatch(full.match_id);
      const last = players[10];
      await assert.rejects(last.socket.joinMatch(full.match_id), { message: "match full" });
      const found = await rpc("arena_find");
      assert.notEqual(found.match_id, full.match_id);
      await last.socket.joinMatch(found.match_id);
      players.forEach((one) => one.leave());
    });
  });
}
