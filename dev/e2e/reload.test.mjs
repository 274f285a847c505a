/**
 * Modules that are loaded again while the server runs, in Lua, JavaScript and WebAssembly, through nakama-js: by
 * SIGHUP, by the admin call, by the watch; what begins takes the new version, what runs finishes on its own, what
 * does not load changes nothing, and no call fails meanwhile.
 *
 * Each test writes a folder of modules of its own. Nothing here sleeps: the log and the answers tell.
 */
import { after, describe, test } from "node:test";
import assert from "node:assert/strict";
import { appendFileSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startVictim } from "./attack/rig.mjs";
import { throngOnly } from "./server.mjs";
import { http, newPlayer, newSocketPlayer, textOf, until } from "./client.mjs";
import { buildRust, missingRust } from "./guests.mjs";

const KEY = "reload-key-of-the-tests";

/** A module whose RPC, hook and matches tell `word`; the match is asked with op code 1. */
const lua = (word, more = "") => `
local nk = require("nakama")
local M = {}
function M.match_init() return {}, 10, "${word}" end
function M.match_join_attempt(context, dispatcher, tick, state) return state, true end
function M.match_join(context, dispatcher, tick, state) return state end
function M.match_leave(context, dispatcher, tick, state) return state end
function M.match_loop(context, dispatcher, tick, state, messages)
  for _, message in ipairs(messages) do
    if message.op_code == 1 then dispatcher.broadcast_message(2, "${word}") end
    if message.op_code == 3 then error("broken on purpose") end
    if message.op_code == 4 then return nil end
  end
  return state
end
function M.match_terminate(context, dispatcher, tick, state) return state end
function M.match_signal(context, dispatcher, tick, state, data) return state, "${word}" end
if nk.register_rpc then
  local calls = 0
  nk.register_rpc(function(context, payload)
    calls = calls + 1
    return "${word}"
  end, "word")
  nk.register_rpc(function() return nk.match_create("word") end, "create")
  nk.register_rpc(function(context, payload) nk.logger_info("says ${word}") return payload end, "says")
  nk.register_rpc(function() error("fails on purpose") end, "fails")
  nk.register_rpc(function() return nk.json_encode(nk.get_config()) end, "config")
  nk.register_req_before(function(context, payload)
    payload.account = payload.account
    payload.display_name = "${word}"
    return payload
  end, "UpdateAccount")
  ${more}
end
return M
`;

const write = (folder, files) => {
  for (const [name, text] of Object.entries(files)) {
    const file = join(folder, name);
    writeFileSync(`${file}.part`, text);
    renameSync(`${file}.part`, file);
  }
};

const servers = [];
after(async () => {
  for (const { server, folder } of servers) {
    await server.stop();
    rmSync(folder, { recursive: true });
  }
});

/** A server with these modules; `rpc` calls by the HTTP key. */
async function start(files, options = {}) {
  const folder = mkdtempSync(join(tmpdir(), "throng-reload-"));
  write(folder, files);
  const server = await started({ "runtime.path": folder, "runtime.reload_key": KEY, ...options });
  servers.push({ server, folder });
  const rpc = async (id, body = "{}") => {
    const answer = await http(server, "POST", `/v2/rpc/${id}?http_key=${server.httpKey}&unwrap`, { body });
    return answer.status === 200 ? answer.text : `${answer.status} ${answer.text}`;
  };
  const reload = (key = KEY) =>
    http(server, "POST", "/v2/runtime/reload", { headers: key ? { authorization: `Bearer ${key}` } : {} });
  return { server, folder, rpc, reload };
}

/** The port of the metrics was free a moment ago; whoever else has taken it has another one next time. */
async function started(options, triesLeft = 3) {
  try {
    return await startVictim({ options });
  } catch (error) {
    if (triesLeft === 0 || !/Address already in use/.test(error.message)) throw error;
    return started(options, triesLeft - 1);
  }
}

const logged = (server, pattern) => server.log.some((line) => pattern.test(line));
const lines = (server, pattern) => server.log.filter((line) => pattern.test(line)).map((line) => JSON.parse(line));

/** The server's metrics by their names. */
const metrics = async (server) => (await server.counters()).of;

const says = async (player, id) => {
  await player.socket.sendMatchState(id, 1, "");
  return textOf(await player.next("match_data", (d) => d.op_code === 2));
};

test("the admin call loads a new version; what runs finishes on its own", throngOnly, async () => {
  const { server, folder, rpc, reload } = await start({ "word.lua": lua("one") });
  const player = await newSocketPlayer(server);
  const old = await rpc("create");
  await player.socket.joinMatch(old);
  assert.equal(await rpc("word"), "one");
  write(folder, { "word.lua": lua("two") });
  const answer = await reload();
  assert.equal(answer.status, 200, answer.text);
  assert.equal(answer.json.version, 2);
  assert.match(answer.json.hash, /^[0-9a-f]{12}$/);
  assert.equal(await rpc("word"), "two");
  await player.client.updateAccount(player.session, { display_name: "x" });
  assert.equal((await player.client.getAccount(player.session)).user.display_name, "two");
  const made = await rpc("create");
  await player.socket.joinMatch(made);
  assert.deepEqual([await says(player, old), await says(player, made)], ["one", "two"]);
  let metric = await metrics(server);
  assert.deepEqual([metric("guest_version"), metric("guest_versions_older"), metric("reloads")], [2, 1, 1]);
  // Log lines, errors and stopped matches name the version that ran.
  await rpc("says", '"x"');
  await rpc("fails");
  await until(() => logged(server, /fails on purpose/));
  assert.equal(lines(server, /says two/)[0].version, 2);
  assert.equal(lines(server, /fails on purpose/)[0].version, 2);
  const guest = await newSocketPlayer(server);
  await guest.socket.joinMatch(old);
  await guest.socket.sendMatchState(old, 3, "");
  await guest.next("disconnect");
  await until(() => logged(server, /a match callback failed/));
  assert.equal(lines(server, /a match callback failed/)[0].version, 1);
  await until(async () => (await metrics(server))("guest_versions_older") === 0);
  guest.leave();
  player.leave();
});

test("what does not load leaves the old one in place and says why", throngOnly, async () => {
  const { server, folder, rpc, reload } = await start({ "word.lua": lua("one") }, { "runtime.load_budget_ms": 2_000 });
  for (const [text, why] of [
    ["local x = = 1", /word\.lua:1: /],
    [lua("two", 'error("not in this world")'), /word\.lua:\d+: .*not in this world/],
    ["while true do end", /word\.lua:1: .*runtime\.load_budget_ms/],
  ]) {
    write(folder, { "word.lua": text });
    const { status, json } = await reload();
    assert.deepEqual([status, json.code], [400, 9], JSON.stringify(json));
    assert.match(json.message, why);
    assert.match(json.message, /version 1 goes on/);
    assert.equal(await rpc("word"), "one");
  }
  await until(() => lines(server, /the modules do not load/).length === 3);
  const metric = await metrics(server);
  assert.deepEqual([metric("guest_version"), metric("reloads_failed")], [1, 3]);
  // A number is never used twice.
  write(folder, { "word.lua": lua("three") });
  assert.equal((await reload()).json.version, 5);
  assert.equal(await rpc("word"), "three");
}, { timeout: 120_000 });

test("whoever has no key loads nothing, and is counted", throngOnly, async () => {
  const { server, folder, rpc, reload } = await start({ "word.lua": lua("one") });
  write(folder, { "word.lua": lua("two") });
  for (const key of ["", "wrong", `${KEY}x`, server.serverKey, server.httpKey]) {
    const { status, json } = await reload(key);
    assert.deepEqual([status, json.code], [401, 16], key);
  }
  const { session } = await newPlayer(server);
  assert.equal((await reload(session.token)).status, 401);
  assert.equal((await http(server, "GET", "/v2/runtime/reload")).status, 501);
  // Nor does a script know the key.
  assert.ok(!(await rpc("config")).includes(KEY));
  assert.equal(await rpc("word"), "one");
  const metric = await metrics(server);
  assert.deepEqual([metric("refused_reloads"), metric("guest_version"), metric("reloads")], [6, 1, 0]);
});

test("without a key there is no such path", throngOnly, async () => {
  const { reload } = await start({ "word.lua": lua("one") }, { "runtime.reload_key": "" });
  assert.equal((await reload("")).status, 404);
  assert.equal((await reload("x")).status, 404);
});

test("SIGHUP loads a new version, which may bring what the old one had not", throngOnly, async () => {
  const { server, folder, rpc } = await start({ "word.lua": lua("one") });
  const events = 'nk.register_event_session_start(function() nk.logger_info("somebody came") end)';
  write(folder, { "word.lua": lua("two", events), "other.lua": 'require("nakama").register_rpc(function() return "new" end, "other")' });
  assert.match(await rpc("other"), /^404 /);
  server.child.kill("SIGHUP");
  await until(() => logged(server, /the modules serve/));
  assert.deepEqual([await rpc("word"), await rpc("other")], ["two", "new"]);
  const player = await newSocketPlayer(server);
  await until(() => logged(server, /somebody came/));
  player.leave();
  // What is gone is gone.
  rmSync(join(folder, "other.lua"));
  server.child.kill("SIGHUP");
  await until(() => lines(server, /the modules serve/).length === 2);
  assert.match(await rpc("other"), /^404 /);
});

test("the watch loads what has changed, once it is quiet", throngOnly, async () => {
  const { server, folder, rpc } = await start({ "word.lua": lua("one") }, { watch: true });
  assert.equal(await rpc("word"), "one");
  write(folder, { "word.lua": lua("two"), "a.lua": "return 1", "b.lua": "return 2" });
  await until(() => logged(server, /the modules serve/));
  assert.equal(await rpc("word"), "two");
  write(folder, { "word.lua": "no Lua at all" });
  await until(() => logged(server, /the modules do not load/));
  write(folder, { "word.lua": lua("three") });
  await until(() => lines(server, /the modules serve/).length === 2);
  assert.equal(await rpc("word"), "three");
});

test("JavaScript and Lua change together, and hand functions over to each other", throngOnly, async () => {
  const js = (word, more = "") => `
    function InitModule(ctx, logger, nk, initializer) {
      initializer.registerRpc("js_word", jsWord);
      initializer.registerRpc("js_create", jsCreate);
      initializer.registerMatch("js_match", { matchInit, matchJoinAttempt, matchJoin, matchLeave, matchLoop, matchTerminate, matchSignal });
      ${more}
    }
    function jsWord(ctx, logger, nk, payload) { return "${word}"; }
    function jsCreate(ctx, logger, nk, payload) { return nk.matchCreate("js_match"); }
    function matchInit() { return { state: {}, tickRate: 10, label: "" }; }
    function matchJoinAttempt(ctx, logger, nk, dispatcher, tick, state) { return { state, accept: true }; }
    function matchJoin(ctx, logger, nk, dispatcher, tick, state) { return { state }; }
    function matchLeave(ctx, logger, nk, dispatcher, tick, state) { return { state }; }
    function matchLoop(ctx, logger, nk, dispatcher, tick, state, messages) {
      for (const m of messages) if (m.opCode === 1) dispatcher.broadcastMessage(2, "${word}");
      return { state };
    }
    function matchTerminate(ctx, logger, nk, dispatcher, tick, state) { return { state }; }
    function matchSignal(ctx, logger, nk, dispatcher, tick, state) { return { state, data: "" }; }`;
  const { server, folder, rpc, reload } = await start({ "word.lua": lua("lua one"), "index.js": js("js one") });
  const player = await newSocketPlayer(server);
  assert.deepEqual([await rpc("word"), await rpc("js_word")], ["lua one", "js one"]);
  const old = await rpc("js_create");
  await player.socket.joinMatch(old);
  // Known to be quick, and then in a language that runs elsewhere.
  for (let i = 0; i < 40; i += 1) await rpc("word");
  rmSync(join(folder, "word.lua"));
  write(folder, { "index.js": js("js two", 'initializer.registerRpc("word", jsWord);') });
  const answer = await reload();
  assert.equal(answer.status, 200, answer.text);
  assert.deepEqual([await rpc("word"), await rpc("js_word")], ["js two", "js two"]);
  const made = await rpc("js_create");
  await player.socket.joinMatch(made);
  assert.deepEqual([await says(player, old), await says(player, made)], ["js one", "js two"]);
  write(folder, { "index.js": "function InitModule() { throw new Error('not today'); }" });
  const broken = await reload();
  assert.equal(broken.status, 400);
  assert.match(broken.json.message, /index\.js:1.*not today/s);
  assert.equal(await rpc("js_word"), "js two");
  player.leave();
});

const skipRust = throngOnly.skip ?? missingRust();
test("WebAssembly is compiled anew, and an error names the module's own hash and the version", skipRust ? { skip: skipRust } : {}, async () => {
  const { server, folder, rpc, reload } = await start({ "word.lua": lua("one") }, { "runtime.call_budget_ms": 500 });
  assert.match(await rpc("echo"), /^404 /);
  buildRust("arena", join(folder, "arena.wasm"));
  assert.equal((await reload()).status, 200);
  assert.equal(JSON.parse(await rpc("echo", '{"a":1}')).echo.a, 1);
  await rpc("spin");
  await until(() => logged(server, /arena\.wasm@[0-9a-f]{8}/));
  // A section of its own at the end changes nothing but the hash.
  appendFileSync(join(folder, "arena.wasm"), Buffer.from([0, 3, 1, 0x78, 0x79]));
  assert.equal((await reload()).json.version, 3);
  await rpc("spin");
  await until(() => lines(server, /arena\.wasm@/).length === 2);
  const [first, second] = lines(server, /arena\.wasm@/);
  assert.deepEqual([first.version, second.version], [2, 3]);
  const hash = (line) => /arena\.wasm@([0-9a-f]{8})/.exec(JSON.stringify(line))[1];
  assert.notEqual(hash(first), hash(second));
  // What has not changed is not compiled again.
  write(folder, { "word.lua": lua("two") });
  assert.equal((await reload()).json.version, 4);
  const compiled = lines(server, /modules in WebAssembly were compiled/).map(({ version, message }) => [version, message]);
  const of = (count) => `${count} of 1 modules in WebAssembly were compiled`;
  assert.deepEqual(compiled, [[2, of(1)], [3, of(1)], [4, of(0)]]);
  assert.deepEqual([await rpc("word"), JSON.parse(await rpc("echo", '{"a":1}')).echo.a], ["two", 1]);
  writeFileSync(join(folder, "arena.wasm"), "no module");
  const broken = await reload();
  assert.equal(broken.status, 400);
  assert.match(broken.json.message, /arena\.wasm/);
  assert.deepEqual(JSON.parse(await rpc("echo", '{"b":2}')).echo, { b: 2 });
});

test("so many versions may be held by matches; one more is refused and says by which", throngOnly, async () => {
  const { server, folder, rpc, reload } = await start({ "word.lua": lua("v1") });
  const ids = [];
  for (let version = 2; version <= 9; version += 1) {
    ids.push(await rpc("create"));
    write(folder, { "word.lua": lua(`v${version}`) });
    const answer = await reload();
    assert.equal(answer.json.version, version, answer.text);
  }
  const refused = await reload();
  assert.equal(refused.status, 400);
  assert.match(refused.json.message, /^8 older versions are in use/);
  for (const id of ids) assert.ok(refused.json.message.includes(id.split(".")[0]), id);
  assert.equal(await rpc("word"), "v9");
  // With the end of a match its version goes.
  const player = await newSocketPlayer(server);
  await player.socket.joinMatch(ids[0]);
  await player.socket.sendMatchState(ids[0], 4, "");
  await until(async () => (await metrics(server))("guest_versions_older") === 7);
  assert.equal((await reload()).status, 200);
  assert.equal((await metrics(server))("reloads_refused"), 1);
  player.leave();
}, { timeout: 120_000 });

describe("under load", throngOnly, () => {
  test("no call fails or is answered twice while versions come and go, and nothing is left of them", async () => {
    const { server, folder, rpc, reload } = await start({ "word.lua": lua("w1") });
    const players = await Promise.all([1, 2, 3, 4].map(() => newSocketPlayer(server)));
    const tasks = `/proc/${server.child.pid}/task`;
    const name = (thread) => {
      try {
        return readFileSync(join(tasks, thread, "comm"), "utf8").trim();
      } catch {
        return "scrape"; // It has ended meanwhile.
      }
    };
    // A look at the metrics has a thread for as long as its connection is open.
    const threads = () => readdirSync(tasks).map(name).filter((it) => it !== "scrape").sort();
    const held = async () => (await metrics(server))("scripts_memory_bytes");
    const resident = () => server.residentBytes();
    const rounds = 100;
    let isOver = false;
    let answered = 0;
    // Words only ever rise for who asks one at a time: no call begins on an older version than the one before.
    const ask = async (call) => {
      let last = 0;
      while (!isOver) {
        const word = Number((await call()).slice(1));
        assert.ok(word >= last, `w${word} after w${last}`);
        last = word;
        answered += 1;
      }
    };
    const asking = [
      ...players.map((player) => ask(async () => (await player.socket.rpc("word", "")).payload.replaceAll('"', ""))),
      ...[1, 2].map(() => ask(() => rpc("word"))),
      ask(async () => {
        await players[0].client.updateAccount(players[0].session, { display_name: "x" });
        return (await players[0].client.getAccount(players[0].session)).user.display_name;
      }),
    ];
    let early;
    for (let round = 2; round <= rounds + 1; round += 1) {
      write(folder, { "word.lua": lua(`w${round}`) });
      const answer = await reload();
      assert.equal(answer.json.version, round, answer.text);
      if (round === 11) early = { threads: threads(), held: await held(), resident: await resident() };
    }
    isOver = true;
    await Promise.all(asking);
    assert.equal(await rpc("word"), `w${rounds + 1}`);
    assert.ok(answered > rounds, `${answered} calls`);
    await until(async () => (await metrics(server))("guest_versions_older") === 0);
    const late = { threads: threads(), held: await held(), resident: await resident() };
    assert.deepEqual(late.threads, early.threads);
    assert.ok(late.held < early.held * 1.25, `VMs held ${early.held} bytes, and hold ${late.held}`);
    assert.ok(late.resident < early.resident * 1.25, `${early.resident} bytes were resident, and ${late.resident} are`);
    players.forEach((player) => player.leave());
  }, { timeout: 300_000 });
});
