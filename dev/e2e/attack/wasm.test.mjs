/**
 * Guests in WebAssembly that want everything, or break what guests and server have agreed on: loops, memory without
 * end, recursion, wrong places and lengths, wrong arguments, sleep, log lines; as RPC functions with a neighbour
 * beside them, and in a match beside one that watches its ticks. What many matches that do nothing take, in every
 * language; and matches until there is no more room for one.
 *
 * The modules are built here (`../wasm/hostile.rs`, `examples/`); without their toolchains the tests are left out.
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bearer, http, newPlayer } from "../client.mjs";
import { buildRust, GAMES, missingRust } from "../guests.mjs";
import { REPOSITORY, throngOnly, within } from "../server.mjs";
import { besideNeighbour, CASE_MS_MAX, inParallel, NEIGHBOUR_MS_MAX, startVictim } from "./rig.mjs";

const MIB = 1 << 20;
/** A tick of the match that watches comes every so often. */
const TICK_MS = 50;

/** A folder with a guest, and a server that runs it; `beside` are modules to run with it. */
async function start(build, { beside, options = {} } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "throng-wasm-"));
  if (beside) cpSync(join(REPOSITORY, beside), folder, { recursive: true });
  build(folder);
  const server = await startVictim({ options: { "runtime.path": folder, "engine.rooms": 1, ...options } });
  const rpc = (id, payload = "") =>
    http(server, "POST", `/v2/rpc/${id}?http_key=${server.httpKey}&unwrap`, { body: payload });
  const stop = async () => {
    await server.stop();
    rmSync(folder, { recursive: true });
  };
  return { server, rpc, stop };
}

/** Asks once a tick until it is so. */
async function eventually(isSo) {
  const ask = async () => {
    while (!(await isSo())) await new Promise((rested) => setTimeout(rested, TICK_MS));
  };
  await within(ask(), CASE_MS_MAX, () => `never: ${isSo}`);
}

/** What each function comes to: its status, and what stands in its answer. */
const CALLS = {
  hostile_spin: [500, /hostile.*script used up its 1000 ms \(runtime\.call_budget_ms\)/],
  hostile_hoard: [500, /script used up its 67108864 bytes \(runtime\.memory_max_bytes\)/],
  hostile_recurse: [500, /stack overflow \(524288 bytes\)/],
  hostile_panic: [500, /on purpose/],
  hostile_take: [500, /throng\.take/],
  hostile_give: [500, /throng\.give/],
  hostile_call: [500, /throng\.call/],
  hostile_register: [500, /only while the module starts/],
  hostile_untyped: [200, /^5$/],
  hostile_sleep: [200, /^done$/],
  hostile_log: [200, /^done$/],
};

const noRust = throngOnly.skip ?? missingRust();
describe("hostile guests", noRust ? { skip: noRust } : {}, () => {
  let server, rpc, stop;
  before(async () => {
    if (noRust) return;
    const options = { "runtime.call_budget_ms": 1_000, "runtime.memory_max_bytes": 64 * MIB };
    ({ server, rpc, stop } = await start((folder) => buildRust("hostile", join(folder, "hostile.wasm")), { beside: "dev/e2e/modules", options }));
  });
  after(() => stop?.());

  for (const [id, [status, text]] of Object.entries(CALLS)) {
    test(`${id} harms nobody but itself`, async () => {
      const before = await server.residentBytes();
      const { result } = await besideNeighbour(server, () => inParallel(4, 2, () => rpc(id)));
      for (const answer of result) {
        assert.equal(answer.status, status, answer.text);
        assert.match(answer.text, text);
      }
      const grown = (await server.residentBytes()) - before;
      assert.ok(grown < 64 * MIB, `${Math.round(grown / MIB)} MiB more`);
    });
  }

  for (const harm of ["spin", "hoard", "recurse", "broadcast"]) {
    test(`a match that harms its room by ${harm} ends, and the one beside it ticks on`, async () => {
      const { text: watching } = await rpc("greedy_create", "{}");
      const watched = async () => JSON.parse((await rpc("greedy_signal", watching)).text);
      await eventually(async () => (await watched()).ticks > 5);
      const attack = async () => {
        const { text: harming, status } = await rpc("hostile_match", harm);
        assert.equal(status, 200, harming);
        await eventually(async () => (await rpc("greedy_signal", harming)).status !== 200);
        const { ticks } = await watched();
        await eventually(async () => (await watched()).ticks > ticks + 5);
      };
      await besideNeighbour(server, attack);
      const waited = (await watched()).worst_ms - TICK_MS;
      assert.ok(waited < NEIGHBOUR_MS_MAX, `the match beside waited ${waited} ms for its tick`);
    });
  }
});

/**
 * The same on the thread of the one core: functions that are known to be quick, and do harm then. What the harm leaves
 * of an instance another thread frees, and when the last one is gone another thread makes new ones.
 */
describe("functions that were quick and then do harm on a core", noRust ? { skip: noRust } : {}, () => {
  for (const [harm, text] of Object.entries({
    spin: /script used up its 1000 ms \(runtime\.call_budget_ms\)/,
    hoard: /script used up its \d+ bytes \(runtime\.memory_max_bytes\)/,
    recurse: /stack overflow \(524288 bytes\)/,
    panic: /on purpose/,
  })) {
    test(`one that harms by ${harm}`, async () => {
      const options = {
        "engine.cores": 1, "runtime.call_budget_ms": 1_000, "runtime.memory_max_bytes": 64 * MIB,
      };
      const build = (folder) => buildRust("hostile", join(folder, "hostile.wasm"));
      const { server, stop } = await start(build, { beside: "dev/e2e/modules", options });
      try {
        const attack = async () => {
          const refusals = [];
          // A function stays away for a minute when it does harm again.
          for (let time = 0; time < 2; time++) {
            const { session } = await newPlayer(server);
            const call = (payload) =>
              http(server, "POST", "/v2/rpc/hostile_turn?unwrap", { headers: bearer(session), body: payload });
            const onCores = async () => (await server.counters()).of("calls_on_cores");
            const known = await onCores();
            await eventually(async () => {
              for (let count = 0; count < 24; count++) assert.equal((await call("")).status, 200);
              return (await onCores()) > known + 20;
            });
            refusals.push(await call(harm));
          }
          return refusals;
        };
        const { result } = await besideNeighbour(server, attack);
        for (const answer of result) {
          assert.equal(answer.status, 500, answer.text);
          assert.match(answer.text, text);
        }
        await eventually(async () => (await server.counters()).of("scripts_missing") === 0);
        const renewed = (await server.counters()).of("scripts_renewed");
        console.log(`new instances were made ${renewed} times`);
      } finally {
        await stop();
      }
    });
  }
});

/**
 * Bytes of memory of a process. Pages of a module that no instance has written to are mapped by all of them: here
 * they count once (`Pss` of proc_pid_smaps(5)), and not for each as in the resident set.
 */
function proportionalBytes(pid) {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  return Number(/^Pss:\s+(\d+) kB$/m.exec(rollup)[1]) * 1024;
}

/** The same once the process has given back what it had taken for a while: to compile a module, say. */
async function settledBytes(pid) {
  let [bytes, same] = [proportionalBytes(pid), 0];
  await eventually(async () => {
    const now = proportionalBytes(pid);
    same = Math.abs(now - bytes) < MIB ? same + 1 : 0;
    bytes = now;
    return same >= 10;
  });
  return bytes;
}

/** How many matches of the example game, and kilobytes of each, at most. */
const MATCHES = {
  lua: { count: 1_000, kbMax: 100 },
  javascript: { count: 1_000, kbMax: 300 },
  rust: { count: 1_000, kbMax: 50 },
  go: { count: 1_000, kbMax: 200 },
};
for (const [language, { count: matches, kbMax }] of Object.entries(MATCHES)) {
  const { build, missing } = GAMES[language];
  const skip = throngOnly.skip ?? missing();
  test(`${matches} matches in ${language} take less than ${kbMax} KB each`, { skip }, async (context) => {
    const { server, rpc, stop } = await start(build);
    try {
      const make = async (count) => {
        const made = await inParallel(count, 8, () => rpc("arena", "{}"));
        for (const { status, text } of made) assert.equal(status, 200, text);
      };
      // What the first match of every room needs once.
      await make(50);
      const [before, counted] = [await settledBytes(server.child.pid), await server.counters()];
      await make(matches);
      const grown = (await settledBytes(server.child.pid)) - before;
      const asked = (await server.counters()).of("match_memory_bytes") - counted.of("match_memory_bytes");
      const each = (bytes) => Math.round(bytes / matches / 100) / 10;
      context.diagnostic(`${each(grown)} KB in memory for each match, ${each(asked)} KB asked for`);
      assert.ok(grown < matches * kbMax * 1_000, `${each(grown)} KB for each match`);
    } finally {
      await stop();
    }
  });
}

/**
 * The mappings of a process are the kernel's limit for whoever allocates (`vm.max_map_count`). Not looked at where a
 * machine allows so many that no number of matches within reason takes them.
 */
const MAPPINGS_MAX = Number(readFileSync("/proc/sys/vm/max_map_count", "utf8"));
const tooMany = MAPPINGS_MAX > 100_000 && "vm.max_map_count is far more than the matches of this test take";
test("matches that take a process's memory mappings", { skip: throngOnly.skip ?? (missingRust() || tooMany) }, async (context) => {
  const options = { "match.matches_max": MAPPINGS_MAX, "runtime.all_memory_max_bytes": 64 * 1024 * MIB };
  const { server, rpc, stop } = await start(GAMES.rust.build, { beside: "dev/e2e/modules", options });
  try {
    const { result } = await besideNeighbour(server, async () => {
      let [made, refusal] = [0, undefined];
      await inParallel(8, 8, async () => {
        while (!refusal) {
          const { status, text } = await rpc("arena", "{}");
          if (status === 200) made += 1;
          else refusal = text;
        }
      });
      const mappings = readFileSync(`/proc/${server.child.pid}/maps`, "utf8").split("\n").length;
      // Threads that begin now need some, and a call its instance.
      for (let scrapes = 0; scrapes < 3; scrapes++) assert.ok((await server.counters()).has("match_memory_bytes"));
      return { made, refusal, mappings };
    });
    const { made, refusal, mappings } = result;
    context.diagnostic(`${made} matches with ${mappings} of ${MAPPINGS_MAX} mappings, then: ${refusal}`);
    assert.match(refusal, /vm\.max_map_count/);
    assert.ok(mappings > MAPPINGS_MAX / 4 && mappings < (MAPPINGS_MAX * 7) / 8, `${mappings} mappings`);
  } finally {
    // It ends in order, which takes threads as well.
    await stop();
  }
});
