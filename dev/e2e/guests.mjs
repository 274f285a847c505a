/**
 * Builds guests in WebAssembly, each with the plain toolchain of its language: what authors of games do.
 * Run by itself, this file builds them all, so that what toolchains need once is at hand, and says what is missing.
 * Not here: what they are to do in the server (`wasm.test.mjs`, `attack/wasm.test.mjs`).
 */
import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { REPOSITORY } from "./server.mjs";

const CRATE = join(REPOSITORY, "guests", "rust");

/** An example of the crate in `guests/rust`, by its name, to a file. */
export function buildRust(example, file) {
  const flags = ["--release", "--locked", "--target", "wasm32-wasip1", "--example", example];
  const env = { ...process.env, CARGO_TARGET_DIR: join(CRATE, "target") };
  execFileSync("cargo", ["build", "--quiet", ...flags], { cwd: CRATE, env, stdio: "inherit" });
  copyFileSync(join(CRATE, "target", "wasm32-wasip1", "release", "examples", `${example}.wasm`), file);
}

/** Why nothing in Rust can be built here, or undefined. */
export function missingRust() {
  const { status, stdout } = spawnSync("rustc", ["--print", "sysroot"], { encoding: "utf8" });
  const std = status === 0 && join(stdout.trim(), "lib", "rustlib", "wasm32-wasip1");
  return std && existsSync(std) ? undefined : "no std for wasm32-wasip1: rustup target add wasm32-wasip1";
}

/** The example in Go to a file. */
export function buildGo(file) {
  const env = { ...process.env, GOOS: "wasip1", GOARCH: "wasm" };
  const flags = ["-buildmode=c-shared", "-ldflags=-w", "-o", file];
  execFileSync("go", ["build", ...flags], { cwd: join(REPOSITORY, "examples", "go"), env, stdio: "inherit" });
}

/** Why nothing in Go can be built here, or undefined. */
export function missingGo() {
  return spawnSync("go", ["version"]).status === 0 ? undefined : "no Go toolchain: https://go.dev/dl";
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [noRust, noGo] = [missingRust(), missingGo()];
  const folder = mkdtempSync(join(tmpdir(), "throng-guests-"));
  const file = join(folder, "guest.wasm");
  if (!noRust) for (const example of ["arena", "hostile"]) buildRust(example, file);
  if (!noGo) buildGo(file);
  rmSync(folder, { recursive: true });
  for (const why of [noRust, noGo]) if (why) console.log(`guests in WebAssembly are left out: ${why}`);
}
