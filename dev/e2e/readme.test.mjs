/**
 * The client code of the README, run as it stands there: the js block behind `<!-- run by dev/e2e -->`, with only
 * the port changed to that of the server under test.
 */
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { REPOSITORY, startServer, within } from "./server.mjs";

const LINES_MAX = 20;
const RUN_MS_MAX = 20_000;
const MARKED_BLOCK = /<!-- run by dev\/e2e -->\s*```js\n([\s\S]*?)```/;

let server;
before(async () => {
  server = await startServer();
});
after(() => server?.stop());

async function clientCode() {
  const code = MARKED_BLOCK.exec(await readFile(join(REPOSITORY, "README.md"), "utf8"))?.[1];
  return code ?? assert.fail("no js block marked <!-- run by dev/e2e -->");
}

test("two players exchange moves", async () => {
  const code = await clientCode();
  const lines = code.split("\n").filter((line) => line.trim() !== "");
  assert.ok(lines.length <= LINES_MAX, `${lines.length} lines, the README promises ${LINES_MAX}`);
  assert.ok(code.includes('"7350"'), "the default port is not in the code");
  const script = code.replace('"7350"', `"${server.port}"`).replace("127.0.0.1", server.host);
  // nakama-js keeps timers; the script is done when it has printed its last line.
  const child = spawn(
    process.execPath,
    ["--input-type=module", "--eval", `${script}\nprocess.exit(0);`],
    {
      cwd: import.meta.dirname,
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text) => (output += text));
  }
  const exited = new Promise((done) => child.once("close", done));
  const code0 = await within(exited, RUN_MS_MAX, () => {
    child.kill("SIGKILL");
    return `the README code did not end\n${output}`;
  });
  assert.equal(code0, 0, output);
  const last = output.trim().split("\n").slice(-2);
  const boards = last.map((line) => JSON.parse(line.slice(line.indexOf("{"))).board.join());
  assert.deepEqual(boards, [",,,,X,,,,", ",,,,X,,,,"], output);
  assert.deepEqual(last.map((line) => line.slice(0, 8)).sort(), ["ann sees", "bob sees"], output);
});
