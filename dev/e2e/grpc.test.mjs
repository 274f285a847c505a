/**
 * gRPC with the client that Nakama publishes as a Go module: starts a server, then runs the Go tests of grpc/
 * against it, each as a test of its own here.
 */
import { after, before, test } from "node:test";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import assert from "node:assert/strict";
import { apiTable, isExternal, startServer, throngOnly } from "./server.mjs";

const FOLDER = fileURLToPath(new URL("grpc", import.meta.url));
/** Compiling gRPC for Go takes a minute or two the first time. */
const BUILD_MS_MAX = 600_000;
/** How long one Go test may take. */
const TEST_MS_MAX = 60_000;
/** What only throng promises. */
const ONLY_THRONG = /TestEveryMethodIsKnown|TestWhatIsNoGRPCIsTold|TestMessagesThatAreTooLarge|TestHooks|TestGuests/;

const { stdout } = spawnSync("go", ["list", "-f", "{{.Dir}}", "."], { cwd: FOLDER, encoding: "utf8" });
assert.equal(stdout?.trim(), FOLDER, "these tests need Go");
const program = join(await mkdtemp(join(tmpdir(), "throng-grpc-")), "grpc.test");
const built = spawnSync("go", ["test", "-c", "-o", program, "."], {
  cwd: FOLDER,
  encoding: "utf8",
  timeout: BUILD_MS_MAX,
});
assert.equal(built.status, 0, `the Go tests do not compile:\n${built.stderr}`);
const names = spawnSync(program, ["-test.list", "."], { encoding: "utf8" }).stdout.split("\n").filter(Boolean);

/** Names of calls that the server does not have. */
const notBuilt = () => apiTable().calls.filter(({ doc }) => !doc).map(({ name }) => name).join(",");

let server;
before(async () => (server = await startServer()));
after(async () => {
  await server?.stop();
  await rm(join(program, ".."), { recursive: true });
});

for (const name of names) {
  const options = ONLY_THRONG.test(name) && isExternal ? throngOnly : {};
  test(name, { ...options, timeout: TEST_MS_MAX }, async () => {
    const child = spawn(program, ["-test.run", `^${name}$`, "-test.v"], {
      env: {
        ...process.env,
        THRONG_GRPC: `${server.host}:${server.grpcPort}`,
        THRONG_HTTP: server.url,
        THRONG_SERVER_KEY: server.serverKey,
        THRONG_HTTP_KEY: server.httpKey,
        THRONG_NOT_BUILT: isExternal ? "" : notBuilt(),
      },
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => (output += text));
    }
    const [code] = await once(child, "close");
    assert.equal(code, 0, `${output}\n${server.logTail()}`);
    assert.match(output, new RegExp(`--- PASS: ${name}`), output);
  });
}
