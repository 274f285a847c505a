/**
 * Every function that scripts may call, with arguments that nobody should pass: nil, NaN, 2^63, huge and broken
 * texts, deep, wide and cyclic tables, functions. A call may fail or run out of its budget; the server lives, and a
 * player beside them does not wait. Once in RPC functions, once in a match's callback.
 *
 * The names are those of docs/lua/functions.md, which is made from the host table; the values are in
 * ../modules/arguments.lua.
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { http } from "../client.mjs";
import { REPOSITORY, throngOnly } from "../server.mjs";
import { besideNeighbour, inParallel, startVictim } from "./rig.mjs";

/** Some 2,000 calls, of which some use up their budget: half a minute where nobody else computes. */
const CASE_MS_MAX = 360_000;

let server;
let names;
let values;
before(async () => {
  if (throngOnly.skip) return;
  server = await startVictim({
    options: {
      "engine.rooms": 1,
      "runtime.call_budget_ms": 50,
      "match.callback_budget_ms": 50,
      // A match has passwords hashed by another thread: some seconds for sixteen of them.
      "runtime.call_wait_max_ms": 300,
      "session.token_expiry_sec": 3_600,
    },
  });
  const page = await readFile(`${REPOSITORY}/docs/lua/functions.md`, "utf8");
  names = [...page.matchAll(/^### (\w+)$/gm)].map(([, name]) => name);
  assert.ok(names.length > 70, names.join(" "));
  values = Number((await rpc("arguments_count")).text);
});
after(() => server?.stop());

async function rpc(id, payload = {}) {
  const path = `/v2/rpc/${id}?http_key=${server.httpKey}&unwrap`;
  return http(server, "POST", path, { body: JSON.stringify(payload) });
}

/** Calls `work` with every function and value; gives how often it answered with what. */
async function withAll(work) {
  const answers = await inParallel(names.length * values, 2, async (at) => {
    const [name, index] = [names[Math.floor(at / values)], (at % values) + 1];
    const answer = await work({ name, index });
    assert.ok([200, 400, 429, 500, 504].includes(answer.status), `${name} ${index}: ${JSON.stringify(answer)}`);
    return answer;
  });
  const counted = answers.filter(({ status, text }) => status === 200 && / of 16$/.test(text));
  // Most are over within their budget.
  assert.ok(counted.length > answers.length * 0.8, `${counted.length} of ${answers.length}`);
}

test("hostile arguments in RPC functions hold up nobody", throngOnly, async () => {
  await besideNeighbour(server, () => withAll((what) => rpc("arguments_try", what)), { caseMs: CASE_MS_MAX });
});

test("hostile arguments in a match end it at most", throngOnly, async () => {
  let match = (await rpc("arguments_create")).text;
  const harm = async () => {
    await withAll(async (what) => {
      const answer = await rpc("arguments_signal", { match, ...what });
      if (answer.status !== 200) match = (await rpc("arguments_create")).text;
      return answer;
    });
  };
  await besideNeighbour(server, harm, { caseMs: CASE_MS_MAX });
});
