/**
 * Scripts that keep Lua's library busy: patterns that look at everything many times, tables that are sorted for
 * ever. Each ends with its budget, and a neighbour hardly notices.
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { bearer, http, newPlayer } from "../client.mjs";
import { throngOnly } from "../server.mjs";
import { besideNeighbour, startVictim } from "./rig.mjs";

const BUDGET_MS = 100;
const CASES = ["pattern", "backtrack", "gsub", "gmatch", "balance", "sort", "insert", "format", "load"];
/** Texts for `load`, each given once: what the translation of one costs is the budget's business too. */
const TEXTS = ["path", "gotos", "scopes", "locals", "labels", "entries", "leaving"];

let server;
before(async () => {
  if (throngOnly.skip) return;
  const options = { "runtime.call_budget_ms": BUDGET_MS, "match.callback_budget_ms": 50 };
  server = await startVictim({ options });
});
after(() => server?.stop());

const call = (session, id, body) =>
  http(server, "POST", `/v2/rpc/${id}?unwrap`, { headers: bearer(session), body: JSON.stringify(body) });

test("no library call outlasts its budget", throngOnly, async () => {
  const { session } = await newPlayer(server);
  const harm = async () => {
    for (const name of CASES) {
      const begin = performance.now();
      const { status, text } = await call(session, "e2e_library", { case: name });
      const took = performance.now() - begin;
      assert.equal(status, 500, `${name}: ${text}`);
      assert.match(text, /used up its 100 ms/, name);
      assert.ok(took < 20 * BUDGET_MS, `${name} took ${took} ms`);
    }
  };
  await besideNeighbour(server, harm, { kinds: ["rpc", "authenticate", "socket"] });
});

test("a match that does it ends, and its room goes on", throngOnly, async () => {
  const { session } = await newPlayer(server);
  const harm = async () => {
    for (const name of ["pattern", "sort"]) {
      const { status, text } = await call(session, "e2e_library_match", { case: name });
      assert.equal(status, 200, text);
    }
    await new Promise((rested) => setTimeout(rested, 1_500));
  };
  await besideNeighbour(server, harm, { kinds: ["rpc", "socket"] });
});

test("no text given to load keeps the server busy", throngOnly, async () => {
  const { session } = await newPlayer(server);
  const harm = async () => {
    for (const name of TEXTS) {
      const begin = performance.now();
      const { status, text } = await call(session, "e2e_library", { case: `load ${name}` });
      const took = performance.now() - begin;
      assert.ok(status === 200 || /used up its 100 ms/.test(text), `${name}: ${text}`);
      assert.ok(took < 20 * BUDGET_MS, `${name} took ${took} ms`);
    }
  };
  await besideNeighbour(server, harm, { kinds: ["rpc", "authenticate", "socket"] });
});

test("no text given to load keeps a match's room busy", throngOnly, async () => {
  const { session } = await newPlayer(server);
  const harm = async () => {
    for (const name of TEXTS) {
      const { status, text } = await call(session, "e2e_library_match", { case: `load ${name}` });
      assert.equal(status, 200, `${name}: ${text}`);
      await new Promise((rested) => setTimeout(rested, 300));
    }
  };
  await besideNeighbour(server, harm, { kinds: ["rpc", "socket"] });
});
