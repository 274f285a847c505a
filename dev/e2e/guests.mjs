/**
 * Builds guests, each with the plain toolchain of its language: what authors of games do.
 * Run by itself, this file builds those that need a toolchain, so that what it needs once is at hand, and says what is
 * missing; with `games FOLDER`, the example game of each language to a folder of modules of its own.
 * Not here: what they are to do in the server (`arena.test.mjs`, `attack/wasm.test.mjs`).
 */
import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
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

/** A module in Go to a file: the example, unless another folder is named. */
export function buildGo(file, folder = join(REPOSITORY, "examples", "go")) {
  const env = { ...process.env, GOOS: "wasip1", GOARCH: "wasm" };
  const flags = ["-buildmode=c-shared", "-ldflags=-w", "-o", file];
  execFileSync("go", ["build", ...flags], { cwd: folder, env, stdio: "inherit" });
}

/** Why nothing in Go can be built here, or undefined. */
export function missingGo() {
  return spawnSync("go", ["version"]).status === 0 ? undefined : "no Go toolchain: https://go.dev/dl";
}

const copied = (language) => ({
  build: (folder) => cpSync(join(REPOSITORY, "examples", language), folder, { recursive: true }),
  missing: () => undefined,
});

/** The example game of each language: how it is made in a folder of modules, and why it cannot be, if it cannot. */
export const GAMES = {
  lua: copied("lua"),
  javascript: copied("javascript"),
  rust: { build: (folder) => buildRust("arena", join(folder, "arena.wasm")), missing: missingRust },
  go: { build: (folder) => buildGo(join(folder, "arena.wasm")), missing: missingGo },
};

/** The game of each language that can be built here, to `FOLDER/LANGUAGE`. */
function buildGames(folder) {
  for (const [language, { build, missing }] of Object.entries(GAMES)) {
    const why = missing();
    if (why) console.log(`${language} is left out: ${why}`);
    else {
      mkdirSync(join(folder, language), { recursive: true });
      build(join(folder, language));
    }
  }
}

if (process.argv[2] === "games") {
  buildGames(process.argv[3]);
} else if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [noRust, noGo] = [missingRust(), missingGo()];
  const folder = mkdtempSync(join(tmpdir(), "throng-guests-"));
  const file = join(folder, "guest.wasm");
  if (!noRust) for (const example of ["arena", "hostile"]) buildRust(example, file);
  if (!noGo) buildGo(file);
  rmSync(folder, { recursive: true });
  for (const why of [noRust, noGo]) if (why) console.log(`guests in WebAssembly are left out: ${why}`);
}
