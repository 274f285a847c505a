/**
 * docs/lua/guide.md, followed as a reader would, in an empty folder: files are written, commands are run in one
 * shell, and the `text` block behind a command must be what it prints. A `js` block is run with a `client` of
 * nakama-js, and prints what its comments say. Only the port is changed.
 *
 * Marks in comments: `file: PATH` before a block to be written, `numbers differ` before output with numbers by
 * chance, `stop` and `stop: SIGKILL` where the reader ends the server. Not here: anything about other pages.
 */
import { after, test } from "node:test";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { REPOSITORY, binary, isExternal, throngOnly, within } from "./server.mjs";

const STEP_MS_MAX = 30_000;
const DEFAULT_PORT = /\b7350\b/g;
/** Marks and fenced blocks, in the order of the page. */
const STEPS =
  /<!-- (stop|stop: SIGKILL|numbers differ|file: [\w./]+) -->|```(sh|lua|text|js)\n([\s\S]*?)```/g;
/** What a line of the page's client code says that it prints. */
const SAID = /console\.log\(.*\/\/ (.*)/;

const folder = isExternal ? undefined : await mkdtemp(join(tmpdir(), "throng-guide-"));
let server;
after(async () => {
  server?.child.kill("SIGKILL");
  if (folder) await rm(folder, { recursive: true, force: true });
});

/** A shell that keeps its variables and its folder between commands. */
class Shell {
  constructor(path) {
    this.child = spawn("bash", ["--noprofile", "--norc"], {
      cwd: folder,
      env: { ...process.env, PATH: path },
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.output = "";
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => (this.output += text));
    }
  }

  /** What the commands print. Fails if the last one does. */
  async run(commands) {
    this.output = "";
    this.child.stdin.write(`${commands}\nprintf '\\n=done=%s=%s=\\n' "$?" "$PWD"\n`);
    const done = /\n=done=(\d+)=(.*)=\n/;
    const all = (async () => {
      while (!done.test(this.output)) {
        assert.equal(this.child.exitCode, null, `the shell ended\n${this.output}`);
        await once(this.child.stdout, "data");
      }
    })();
    await within(all, STEP_MS_MAX, () => `no end of:\n${commands}\n${this.output}`);
    const [, code, cwd] = done.exec(this.output);
    assert.equal(code, "0", `${commands}\n${this.output}`);
    this.cwd = cwd;
    return this.output.replace(done, "").trimEnd();
  }
}

/** Starts what the guide starts in a terminal of its own, on a port of the kernel's choice. */
async function start(command, cwd, path) {
  const [, ...args] = command.trim().split(/\s+/);
  const child = spawn(binaryPath(path), [...args, "--socket.port", "0"], {
    cwd,
    stdio: ["ignore", "pipe", "pipe"],
  });
  process.once("exit", () => child.kill("SIGKILL"));
  let log = "";
  const listening = new Promise((found, failed) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => {
        log += text;
        const port = /listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(log)?.[1];
        if (port) found(port);
      });
    }
    child.once("exit", () => failed(new Error(`the server left at once\n${log}`)));
  });
  const port = await within(listening, STEP_MS_MAX, () => `the server does not start\n${log}`);
  return { child, port, log: () => log };
}

/** What the page's client code prints, by the released SDK. */
async function runClient(code, port) {
  const made = `const client = new Client("defaultkey", "127.0.0.1", "${port}");`;
  const script = `import { Client } from "@heroiclabs/nakama-js";\n${made}\n${code}\nprocess.exit(0);`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", script], {
    cwd: import.meta.dirname,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text) => (output += text));
  }
  await within(once(child, "close"), STEP_MS_MAX, () => {
    child.kill("SIGKILL");
    return `no end of:\n${code}\n${output}`;
  });
  return output.trim();
}

const binaryPath = (path) => join(path.split(":")[0], "throng");

async function stop(signal) {
  const ended = once(server.child, "exit");
  server.child.kill(signal);
  await within(ended, STEP_MS_MAX, () => `the server does not stop\n${server.log()}`);
  server = undefined;
}

test("the guide leads from an empty folder to a game with stored scores", throngOnly, async () => {
  const page = await readFile(join(REPOSITORY, "docs/lua/guide.md"), "utf8");
  const example = await readFile(join(REPOSITORY, "examples/guess.lua"), "utf8");
  assert.ok(page.includes(example), "the guide does not hold examples/guess.lua as it stands");
  const bin = join(folder, "bin");
  await mkdir(bin);
  await symlink(resolve(binary()), join(bin, "throng"));
  const path = `${bin}:${process.env.PATH}`;
  const shell = new Shell(path);
  let [file, output, is_masked, commands, clients] = [undefined, undefined, false, 0, 0];
  for (const [whole, mark, language, block] of page.matchAll(STEPS)) {
    if (mark?.startsWith("stop")) {
      await stop(mark.endsWith("SIGKILL") ? "SIGKILL" : "SIGTERM");
    } else if (mark?.startsWith("file: ")) {
      file = mark.slice("file: ".length);
    } else if (mark) {
      is_masked = true;
    } else if (language === "lua") {
      assert.ok(file, `nobody is told where to write:\n${whole}`);
      await mkdir(dirname(join(shell.cwd, file)), { recursive: true });
      await writeFile(join(shell.cwd, file), block);
      file = undefined;
    } else if (language === "js") {
      assert.equal(await runClient(block, server.port), SAID.exec(block)?.[1], block);
      clients += 1;
    } else if (language === "sh" && block.startsWith("throng serve")) {
      server = await start(block, shell.cwd, path);
    } else if (language === "sh") {
      output = await shell.run(block.replace(DEFAULT_PORT, server?.port ?? "7350"));
      commands += 1;
    } else {
      const masked = (text) => (is_masked ? text.replace(/\d+/g, "0") : text);
      assert.equal(masked(output), masked(block.trimEnd()), "what the command above prints");
      is_masked = false;
    }
  }
  shell.child.kill();
  assert.ok(commands >= 8 && server === undefined, `${commands} commands were run`);
  assert.equal(clients, 1, "blocks of client code were run");
});
