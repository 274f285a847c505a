/**
 * Players whose calls hold memory while they wait for another server, with dozens of accounts and as many calls as
 * each may have: together several times what the scripts of a thread may use. Or each has one call that holds much, and
 * small ones beside it, begun anew as they end. Or each has a few calls in WebAssembly, of which each keeps an instance, or in
 * JavaScript, where each that waits has a VM. Theirs are ended. Those of a neighbour, who waits for the same server and
 * holds little, all come back, and whoever never waits is not kept waiting.
 *
 * Not here: memory that a call takes without waiting (guests.test.mjs), or leaves to its module (spent.test.mjs).
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { cp, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bearer, http, newPlayer, until } from "../client.mjs";
import { buildRust, missingRust } from "../guests.mjs";
import { throngOnly } from "../server.mjs";
import { OPEN, Target } from "../target.mjs";
import { besideNeighbour, startVictim } from "./rig.mjs";

const MEMORY_MAX_BYTES = 16 << 20;
const ACCOUNTS = 40;
/** Of each account at one time, and in all. */
const CALLS = 8;
const CALLS_EACH = 32;
const HELD_BYTES = 200_000;
/** What the neighbour's calls hold, and for how long they wait. */
const NEIGHBOUR_BYTES = 10_000;
const NEIGHBOUR_MS = 100;

/** Of those with one large call: together less than all memory, and much more than half of it. */
const LARGE_ACCOUNTS = 8;
const LARGE_BYTES = 1_800_000;
const TINY_LANES = 2;
const TINY_CALLS_EACH = 100;

/** In WebAssembly, whose instances take about 1.1 MB each: together more than all of the default of 64 MiB. */
const INSTANCE_ACCOUNTS = 15;
const INSTANCE_CALLS = 6;
/** Of those in JavaScript: together more VMs than there is memory for. */
const VM_ACCOUNTS = 12;
const VM_CALLS = 4;
/** Calls of the neighbour's when all of theirs wait that may. */
const QUICK_CALLS = 20;

let target;
before(async () => {
  if (!throngOnly.skip) target = await Target.start();
});
after(() => target?.stop());

const FEW = { "engine.cores": 1, "engine.rooms": 1, "engine.workers": 1 };
const ASKS = { ...OPEN, "fetch.requests_max": 1024, "fetch.requests_per_user": 64, "fetch.requests_per_host": 1024 };

/** A server whose scripts may ask as much as they like; `build` adds modules to its folder. */
async function victim({ options = { "runtime.memory_max_bytes": MEMORY_MAX_BYTES }, build = () => {} } = {}) {
  const dataDir = await mkdtemp(join(tmpdir(), "throng-hoard-"));
  const modules = join(dataDir, "modules");
  for (const module of ["../modules/e2e.lua", "../modules/e2e_match.lua", "hoard.lua"]) {
    await cp(new URL(module, import.meta.url), join(modules, module.split("/").pop()));
  }
  await cp(new URL("hoard.js", import.meta.url), join(modules, "index.js"));
  build(modules);
  return startVictim({ dataDir, options: { ...FEW, ...ASKS, ...options } });
}

const hoard = (server, session, bytes, path, id = "hoard") =>
  http(server, "POST", `/v2/rpc/${id}?unwrap`, {
    headers: bearer(session),
    body: JSON.stringify({ bytes, url: target.url(path) }),
  });

/** Sends the accounts' calls, so many of each at a time; gives the answers of those that were ended. */
async function hoardWithAll(server) {
  const sessions = [];
  for (let number = 0; number < ACCOUNTS; number++) sessions.push((await newPlayer(server)).session);
  const ended = [];
  const all = sessions.flatMap((session, account) =>
    Array.from({ length: CALLS }, async (_, lane) => {
      for (let count = 0; count < CALLS_EACH / CALLS; count++) {
        const answer = await hoard(server, session, HELD_BYTES, `/hold/${account}-${lane}-${count}`);
        if (answer.status !== 200) ended.push(answer);
      }
    }),
  );
  let areDone = false;
  const done = Promise.all(all).finally(() => (areDone = true));
  // What is still held when nothing more is ended goes on.
  for (let before = -1; !areDone; ) {
    await Promise.race([done, new Promise((resolve) => setTimeout(resolve, 1000))]);
    if (ended.length === before) target.releaseAll();
    before = ended.length;
  }
  await done;
  return ended;
}

test("calls that hoard memory while they wait are ended, and a neighbour's are not", throngOnly, async () => {
  const server = await victim();
  try {
    const said = server.heard(/hoard, called by user/);
    const failures = server.heard(/rpc failed/);
    const neighbour = await newPlayer(server);
    let isOver = false;
    const asks = async () => {
      const answers = [];
      while (!isOver) {
        const path = `/late/${NEIGHBOUR_MS}`;
        const four = Array.from({ length: 4 }, () => hoard(server, neighbour.session, NEIGHBOUR_BYTES, path));
        answers.push(...(await Promise.all(four)));
      }
      return answers;
    };
    const asked = asks();
    const harm = () => hoardWithAll(server).finally(() => (isOver = true));
    const { result: ended } = await besideNeighbour(server, harm);
    const answers = await asked;
    const lost = answers.filter(({ status }) => status !== 200);
    const counters = await server.counters();
    console.log(
      `${ended.length} of ${ACCOUNTS * CALLS_EACH} calls that hoard ended, ${lost.length} of the neighbour's ${answers.length}; ` +
        `scripts made anew ${counters.of("scripts_rebuilt")} times`,
    );
    assert.deepEqual(lost, []);
    assert.ok(answers.length > 0 && ended.length > 0);
    for (const { text } of ended) assert.match(text, /keep less while it waits, or raise runtime.memory_max_bytes/);
    assert.equal(counters.of("waiting_calls_ended"), ended.length);
    assert.equal(counters.of("scripts_rebuilt"), 0);
    // Once a second, not a line for each.
    assert.ok(said.length > 0 && said.length < ended.length / 10, `${said.length} lines`);
    assert.deepEqual(failures, []);
  } finally {
    await server.stop();
  }
});

/** Large calls of one account after the other, with small ones of all of them; gives what lets all of them go. */
async function hoardBehindTiny(server) {
  const sessions = [];
  for (let number = 0; number < LARGE_ACCOUNTS; number++) sessions.push((await newPlayer(server)).session);
  let isOver = false;
  const tiny = [];
  const large = [];
  for (const [account, session] of sessions.entries()) {
    large.push(hoard(server, session, LARGE_BYTES, `/hold/large-${account}`));
    tiny.push(
      ...Array.from({ length: TINY_LANES }, async (_, lane) => {
        for (let count = 0; count < TINY_CALLS_EACH && !isOver; count++) {
          await hoard(server, session, 10, `/hold/tiny-${account}-${lane}-${count}`);
        }
      }),
    );
    // Whoever is next comes when these wait, or have been ended before they could ask.
    let isEnded = false;
    large.at(-1).then(() => (isEnded = true));
    const has = (path) => target.requests.some(({ url }) => url.startsWith(path));
    await until(() => (isEnded || has(`/hold/large-${account}`)) && has(`/hold/tiny-${account}-0-`));
  }
  const releases = async () => {
    isOver = true;
    let areDone = false;
    const done = Promise.all([...large, ...tiny]).finally(() => (areDone = true));
    while (!areDone) {
      target.releaseAll();
      await Promise.race([done, new Promise((resolve) => setTimeout(resolve, 50))]);
    }
    return Promise.all(large);
  };
  return { releases };
}

test("small calls beside a large one save no hoard", throngOnly, async () => {
  const server = await victim();
  try {
    const neighbour = await newPlayer(server);
    const waits = hoard(server, neighbour.session, NEIGHBOUR_BYTES, "/hold/neighbour");
    await until(() => target.requests.some(({ url }) => url === "/hold/neighbour"));
    const { result } = await besideNeighbour(server, () => hoardBehindTiny(server));
    // What they hold still is no more than half: whoever takes the rest ends alone.
    const take = { headers: bearer(neighbour.session), body: "{}" };
    const taken = await http(server, "POST", "/v2/rpc/take?unwrap", take);
    const large = await result.releases();
    const lost = large.filter(({ status }) => status !== 200);
    const counters = await server.counters();
    console.log(`${lost.length} of ${LARGE_ACCOUNTS} large calls ended, ${counters.of("waiting_calls_ended")} in all`);
    assert.match(taken.text, /runtime.memory_max_bytes/);
    assert.equal(counters.of("scripts_rebuilt"), 0);
    assert.equal((await waits).status, 200);
    assert.ok(lost.length >= LARGE_ACCOUNTS / 2 - 1, `${lost.length}`);
  } finally {
    await server.stop();
  }
});

const waits = (server, session, path) =>
  http(server, "POST", "/v2/rpc/hostile_wait?unwrap", { headers: bearer(session), body: target.url(path) });

/** Calls in WebAssembly of all accounts, that wait until they are let go; what of them has ended until then. */
async function waitWithAll(server) {
  const sessions = [];
  for (let number = 0; number < INSTANCE_ACCOUNTS; number++) sessions.push((await newPlayer(server)).session);
  const answers = [];
  const all = sessions.flatMap((session, account) =>
    Array.from({ length: INSTANCE_CALLS }, async (_, lane) => {
      answers.push(await waits(server, session, `/hold/instance-${account}-${lane}`));
    }),
  );
  // Each is there, or has been ended, before it could ask or after.
  const asked = () => target.requests.filter(({ url }) => url.startsWith("/hold/instance-")).length;
  await until(() => asked() + answers.length >= all.length);
  return { done: Promise.all(all), answers };
}

const noRust = throngOnly.skip ?? missingRust();
const rustOnly = noRust ? { skip: noRust } : {};
test("calls in WebAssembly that wait take the language from nobody", rustOnly, async () => {
  const server = await victim({ options: {}, build: (modules) => buildRust("hostile", join(modules, "hostile.wasm")) });
  try {
    const { session } = await newPlayer(server);
    const quick = () => http(server, "POST", "/v2/rpc/hostile_untyped?unwrap", { headers: bearer(session), body: "" });
    const mine = [];
    let isOver = false;
    const asks = async () => {
      while (!isOver) mine.push(await quick(), await waits(server, session, "/late/20"));
    };
    const asking = asks();
    const { result } = await besideNeighbour(server, () => waitWithAll(server));
    // While those that are left wait.
    const before = mine.length;
    await until(() => mine.length > before + 20);
    isOver = true;
    await asking;
    target.releaseAll();
    await result.done;
    const ended = result.answers.filter(({ status }) => status !== 200);
    const lost = mine.filter(({ status }) => status !== 200);
    const counters = await server.counters();
    console.log(`${ended.length} of ${result.answers.length} calls that wait ended, ${lost.length} of the neighbour's ${mine.length}`);
    assert.deepEqual(lost, []);
    for (const { text } of ended) assert.match(text, /keep less while it waits, or raise runtime.memory_max_bytes/);
    assert.equal(counters.of("waiting_calls_ended"), ended.length);
    // Half of memory is for those that wait, and no more is taken from them.
    const left = result.answers.length - ended.length;
    assert.ok(left >= 20 && left < 32, `${left}`);
  } finally {
    await server.stop();
  }
});

/** All calls of all accounts, begun and then left waiting or ended; gives what lets them go, and then those that were ended. */
async function waitInVms(server) {
  const calls = [];
  for (let account = 0; account < VM_ACCOUNTS; account++) {
    const { session } = await newPlayer(server);
    for (let lane = 0; lane < VM_CALLS; lane++) {
      const call = { path: `/hold/vm-${account}-${lane}`, isAnswered: false };
      call.answer = hoard(server, session, 10, call.path, "hoard_js").finally(() => (call.isAnswered = true));
      calls.push(call);
    }
  }
  const asked = () => new Set(target.requests.map(({ url }) => url));
  await until(() => calls.every(({ path, isAnswered }) => isAnswered || asked().has(path)));
  return async () => {
    target.releaseAll();
    const answers = await Promise.all(calls.map(({ answer }) => answer));
    return answers.filter(({ status }) => status !== 200);
  };
}

test("VMs of JavaScript whose calls wait leave room for a neighbour's calls", throngOnly, async () => {
  const server = await victim();
  try {
    const neighbour = await newPlayer(server);
    const waits = hoard(server, neighbour.session, NEIGHBOUR_BYTES, "/hold/neighbour-js", "hoard_js");
    await until(() => target.requests.some(({ url }) => url === "/hold/neighbour-js"));
    const answers = [];
    const asks = async (isEnough) => {
      while (!isEnough()) {
        const quick = { headers: bearer(neighbour.session), body: "" };
        answers.push(await http(server, "POST", "/v2/rpc/quick_js?unwrap", quick));
      }
    };
    const harm = async () => {
      let areWaiting = false;
      const asked = asks(() => areWaiting);
      const release = await waitInVms(server).finally(() => (areWaiting = true));
      await asked;
      const enough = answers.length + QUICK_CALLS;
      await asks(() => answers.length >= enough);
      return release();
    };
    const { result: ended } = await besideNeighbour(server, harm);
    const lost = answers.filter(({ status }) => status !== 200);
    const counters = await server.counters();
    console.log(`${ended.length} of ${VM_ACCOUNTS * VM_CALLS} calls in VMs ended, ${lost.length} of the neighbour's ${answers.length}`);
    assert.deepEqual(lost, []);
    assert.ok(ended.length > 0);
    for (const { text } of ended) assert.match(text, /keep less while it waits, or raise runtime.memory_max_bytes/);
    assert.equal(counters.of("waiting_calls_ended"), ended.length);
    assert.equal((await waits).status, 200);
  } finally {
    await server.stop();
  }
});
