/**
 * A player who uses up the memory of the scripts on a core, in the batch, or of callers, again and again, where modules
 * compute for a second while they load. Each time they are loaded once more; a neighbour on the same core, who registers,
 * or whose calls are at callers too, waits for none of that. On a core and in the batch it gets no error either where its
 * call is the one that meets the end of the memory.
 *
 * Not here: what one call may hold (guests.test.mjs).
 */
import { test } from "node:test";
import assert from "node:assert/strict";
import { cp, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bearer, http, newPlayer } from "../client.mjs";
import { throngOnly, within } from "../server.mjs";
import { besideNeighbour, CASE_MS_MAX, startVictim } from "./rig.mjs";

/** Loadings that are waited for: the second one comes a second after the memory is used up again. */
const RENEWED = 3;
const FUNCTIONS = 32;

/** A server with one core whose modules take a second to load. */
async function victim(options) {
  const dataDir = await mkdtemp(join(tmpdir(), "throng-spent-"));
  const modules = join(dataDir, "modules");
  for (const module of ["../modules/e2e.lua", "../modules/e2e_match.lua", "spent.lua"]) {
    await cp(new URL(module, import.meta.url), join(modules, module.split("/").pop()));
  }
  const few = { "engine.cores": 1, "engine.rooms": 1, "engine.workers": 2 };
  return startVictim({ dataDir, options: { ...few, "runtime.memory_max_bytes": MEMORY_MAX_KIB << 10, ...options } });
}

/** Until a function is known to be quick, and some more. */
const CALLS_UNTIL_KNOWN = 24;

/** Memory of a VM, what one call keeps of it, and how many such calls cannot all find room. */
const MEMORY_MAX_KIB = 16 << 10;
const KEPT_KIB = 16;
const CALLS_UNTIL_SPENT = MEMORY_MAX_KIB / KEPT_KIB;

/**
 * Uses the memory up where quick calls run, until it is made anew so often. Each time by another function and another
 * player: one whose call has met the end of a caller's memory has waited until the modules were loaded, and
 * is kept off the cores for that. On a core and in the batch the player's own calls begin again where the neighbour's do.
 */
async function spendAgainAndAgain(server, id) {
  const refusals = [];
  /** What came last, for the message of a test that does not end. */
  let last = "";
  const spend = async () => {
    for (let number = 1; ; number = (number % FUNCTIONS) + 1) {
      const counters = await server.counters();
      if (counters.of("scripts_renewed") >= RENEWED) return;
      if (counters.of("scripts_missing") > 0) continue;
      const { session } = await newPlayer(server);
      const call = (body) =>
        http(server, "POST", `/v2/rpc/${id}${number}?unwrap`, { headers: bearer(session), body });
      for (let count = 0; count < CALLS_UNTIL_KNOWN; count++) await call("");
      for (let count = 0; count < CALLS_UNTIL_SPENT; count++) {
        const answer = await call(String(KEPT_KIB));
        last = `call ${count} of ${id}${number} was answered ${answer.status} ${answer.text}, ${counters.of("scripts_renewed")} renewed`;
        if (answer.status === 200) continue;
        refusals.push(answer);
        break;
      }
    }
  };
  await within(spend(), CASE_MS_MAX, () => `the memory is not used up, or not made anew: ${last}`);
  return refusals;
}

async function attack(id, kinds, options) {
  const server = await victim(options);
  const said = server.heard(/has used up the memory of the scripts/);
  try {
    const harm = () => spendAgainAndAgain(server, id);
    const { result, report } = await besideNeighbour(server, harm, { kinds });
    assert.ok(result.every(({ status, text }) => status !== 200 && text.includes("runtime.memory_max_bytes")));
    const lines = kinds.map((kind) => `${report[kind].p99_ms} ms for ${kind}`);
    console.log(`${result.length} calls met the end of it at callers, too; 99 of 100 answers within ${lines.join(", ")}`);
    const after = await server.counters();
    assert.ok(after.of("scripts_renewed") >= RENEWED && after.of("scripts_rebuilt") >= RENEWED);
    assert.ok(said.length > 0, server.logTail());
  } finally {
    await server.stop();
  }
}

test("modules that load for a second are loaded once more beside a core, not on it", throngOnly, () =>
  attack("fill", ["rpc", "authenticate", "socket"], {
    "runtime.core_slice_us": 20_000,
  }));

test("modules that load for a second are loaded once more beside the batch, not in it", throngOnly, () =>
  attack("save", ["register", "authenticate"], {
    "runtime.batch_slice_us": 100_000,
  }));

/** No core and no batch runs scripts, so that all calls are at the two callers. */
test("modules that load for a second are loaded once more beside a caller, not before the calls behind", throngOnly, () =>
  attack("fill", ["rpc", "read", "wait_or_end"], {
    "runtime.core_slice_us": 0,
    "runtime.batch_slice_us": 0,
  }));
