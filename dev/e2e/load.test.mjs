/**
 * `throng load` against the server under test: each workload of Nakama's benchmark page runs without an error, and
 * the histogram log that a run writes is read back by somebody else's reader (hdr-histogram-js).
 *
 * Runs are short and their speed is not looked at. On Nakama the JavaScript and Go functions run too, if it
 * was started with the modules of `scenarios/modules-js` and `scenarios/modules-nakama`.
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { HistogramLogReader } from "hdr-histogram-js";
import { basic, http } from "./client.mjs";
import { binary, isExternal, startServer } from "./server.mjs";

const RUN_MS_MAX = 60_000;

let server;
let folder;
before(async () => {
  server = await startServer();
  folder = await mkdtemp(join(tmpdir(), "throng-load-"));
});
after(async () => {
  await server?.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Runs a scenario; what it wrote into its folder. */
async function load(scenario, ...flags) {
  const out = join(folder, scenario);
  const args = ["load", scenario, "--target", `http://${server.host}:${server.port}`, "--out", out];
  args.push("--server-key", server.serverKey, "--http-key", server.httpKey);
  if (!flags.includes("--warmup")) args.push("--warmup", "0s");
  args.push("--duration", "1s", ...flags);
  await promisify(execFile)(binary(), args, { timeout: RUN_MS_MAX });
  return { out, result: JSON.parse(await readFile(join(out, "result.json"), "utf8")) };
}

describe("the workloads of the page", () => {
  const workloads = [
    ["ccu", "--players", "50"],
    ["register", "--rate", "50"],
    ["authenticate", "--rate", "50"],
    ["rpc-lua", "--rate", "50"],
    ...(isExternal ? [["rpc-js", "--rate", "50"]] : []),
    ...(isExternal ? [["rpc-go", "--rate", "50"]] : []),
    ["match", "--players", "25", "--rate", "10", "--ramp", "0s"],
    ["match", "--players", "25", "--rate", "10", "--ramp", "0s", "--set", "group=5"],
  ];
  for (const [scenario, ...flags] of workloads) {
    test([scenario, ...flags].join(" "), async () => {
      const { result } = await load(scenario, ...flags);
      assert.deepEqual(result.errors, []);
      const headline = result.ops.find((op) => op.name === result.headline);
      assert.ok(headline.done > 0 && headline.failed === 0 && headline.unanswered === 0);
      if (scenario === "match") {
        const { lost, doubled, reordered, foreign } = result.deliveries;
        assert.deepEqual({ lost, doubled, reordered, foreign }, { lost: 0, doubled: 0, reordered: 0, foreign: 0 });
      }
    });
  }
});

test("another reader finds in the log what the result says", async () => {
  // With a warm-up, which the log has and no figure of the result counts: under another tag.
  const { out, result } = await load("rpc-lua", "--rate", "500", "--warmup", "300ms");
  const reader = new HistogramLogReader(await readFile(join(out, "result.hlog"), "utf8"));
  const sums = new Map();
  for (let next = reader.nextIntervalHistogram(); next; next = reader.nextIntervalHistogram()) {
    if (sums.has(next.tag)) sums.get(next.tag).add(next);
    else sums.set(next.tag, next);
  }
  const rpc = result.ops.find((op) => op.name === "rpc");
  for (const kind of ["service", "response"]) {
    const [found, told] = [sums.get(`rpc.${kind}`), rpc[kind]];
    assert.equal(found.totalCount, told.count, `values of rpc.${kind}`);
    assert.ok(sums.get(`rpc.${kind}.warm-up`).totalCount > 0);
    for (const [percentile, ns] of [[50, told.p50_ns], [99, told.p99_ns], [100, told.max_ns]]) {
      const value = found.getValueAtPercentile(percentile);
      // Three digits: either reader may name another end of the same bucket.
      assert.ok(Math.abs(value - ns) <= ns / 500, `${kind} p${percentile}: ${value}, ${ns}`);
    }
  }
});

test("processes share the rows of a data file, each player has its own", async () => {
  const ids = Array.from({ length: 24 }, (_, n) => `data-file-${process.pid}-"${n}"-${Date.now()}`);
  const rows = ids.map((id) => `${JSON.stringify({ id, name: `N${id.length}` })}\n`);
  await writeFile(join(folder, "devices.jsonl"), rows.join(""));
  await writeFile(
    join(folder, "devices.toml"),
    `name = "devices"
title = "Everybody has a device of a file"
players = 24
[[data]]
name = "devices"
file = "devices.jsonl"
[[session]]
name = "s"
[[session.first]]
op = "login"
post = "/v2/account/authenticate/device?create=true&"
auth = "server-key"
body = '{"id":"\${devices.id:json}"}'
`,
  );
  const { result } = await load(join(folder, "devices.toml"), "--processes", "2");
  assert.deepEqual(result.errors, []);
  assert.deepEqual(result.settings.data, [
    { name: "devices", file: "devices.jsonl", rows: 24, pick: "player", wrap: false },
  ]);
  assert.equal(result.ops[0].done, 24);
  // Had two of them had the same row, one of the accounts would not be there.
  for (const id of ids) {
    const path = "/v2/account/authenticate/device?create=false";
    const answer = await http(server, "POST", path, {
      headers: basic(server.serverKey),
      body: JSON.stringify({ id }),
    });
    assert.equal(answer.status, 200, id);
  }
  // One player more than rows.
  await assert.rejects(load(join(folder, "devices.toml"), "--players", "25"), /25 players, and devices.jsonl has 24 rows/);
});
