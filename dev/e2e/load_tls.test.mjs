/**
 * `throng load` over https and wss: against a server of node's own, whose TLS is OpenSSL's, and against this server
 * behind nginx, as it is run.
 *
 * The certificates are made here, by `openssl`. nginx is left out where it is not installed; `.ci/run` installs it.
 */
import { after, before, describe, test } from "node:test";
import assert from "node:assert/strict";
import { execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer as createPlain } from "node:http";
import { createServer } from "node:https";
import { connect, createServer as createTcp } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { WebSocketServer } from "ws";
import { until } from "./client.mjs";
import { binary, startServer, throngOnly } from "./server.mjs";

const RUN_MS_MAX = 60_000;
const PLAYERS = 6;

/** Asks over HTTP, then opens a socket and gets echoes. */
const SCENARIO = `name = "secure"
title = "A request and a socket over TLS"
players = ${PLAYERS}
rate = 60
[[session]]
name = "s"
[[session.first]]
op = "get"
get = "/x"
contains = "over TLS"
[[session.first]]
op = "connect"
connect = "/ws"
[[session.loop]]
op = "echo"
send_binary = 40000
await = "echo"
`;
/** A request on a connection of its own each time. */
const CLOSING = `name = "closing"
title = "A connection for each request"
players = ${PLAYERS}
rate = 60
[[session]]
name = "s"
[[session.loop]]
op = "get"
get = "/close"
`;

let folder;
/** A certificate of this server of a test, of these names; some openssl options of its own. */
function certificate(name, names, ...options) {
  const [key, cert] = [join(folder, `${name}.key`), join(folder, `${name}.pem`)];
  const args = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  args.push("-keyout", key, "-out", cert, "-subj", `/CN=${name}`, "-addext", `subjectAltName=${names}`);
  if (!options.includes("-authority")) args.push("-addext", "basicConstraints=critical,CA:FALSE");
  execFileSync("openssl", [...args, ...options.filter((option) => option !== "-authority")], { stdio: "pipe" });
  return { key, cert };
}

/** Runs a scenario's text; its result, exit code and what it said. */
async function load(text, target, ...flags) {
  const name = /name = "(\w+)"/.exec(text)[1];
  const [file, out] = [join(folder, `${name}.toml`), join(folder, "out", name)];
  await writeFile(file, text);
  await rm(out, { recursive: true, force: true });
  const args = ["load", file, "--target", target, "--out", out, "--warmup", "0s", "--duration", "1s", ...flags];
  const options = { timeout: RUN_MS_MAX };
  const ran = await promisify(execFile)(binary(), args, options).catch((error) => error);
  const result = JSON.parse(await readFile(join(out, "result.json"), "utf8"));
  const page = await readFile(join(out, "report.html"), "utf8");
  return { result, page, code: ran.code ?? 0, said: ran.stdout + ran.stderr };
}

/** Listens on a port of the kernel's choice. */
async function listen(server) {
  await once(server.listen(0, "127.0.0.1"), "listening");
  return server.address().port;
}

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "throng-tls-"));
});
after(() => rm(folder, { recursive: true, force: true }));

describe("a server of OpenSSL's", () => {
  const servers = [];
  /** https and wss with these options; the port. */
  async function serve({ key, cert }, options = {}) {
    const server = createServer(
      { key: await readFile(key), cert: await readFile(cert), ...options },
      (request, response) => {
        response.shouldKeepAlive = request.url !== "/close";
        response.end(`over TLS: ${request.socket.getProtocol()}, ${request.socket.servername}`);
      },
    );
    const sockets = new WebSocketServer({ server });
    sockets.on("connection", (socket) => {
      socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
    });
    servers.push(server);
    return listen(server);
  }
  let good;
  before(() => {
    good = certificate("good", "DNS:localhost,IP:127.0.0.1");
  });
  after(() => {
    for (const server of servers) {
      server.closeAllConnections?.();
      server.close();
    }
  });

  for (const version of ["TLSv1.3", "TLSv1.2"]) {
    test(`requests and sockets over ${version}`, async () => {
      const port = await serve(good, { minVersion: version, maxVersion: version });
      for (const name of ["localhost", "127.0.0.1"]) {
        const { result, page, code, said } = await load(SCENARIO, `https://${name}:${port}`, "--tls-ca", good.cert);
        assert.deepEqual([result.errors, code], [[], 0], said);
        const echo = result.ops.find((op) => op.name === "echo");
        assert.ok(echo.done > 20 && echo.failed === 0, said);
        const { full, resumed, protocol, handshake } = result.connections.tls;
        assert.deepEqual({ full, resumed, count: handshake.count }, { full: PLAYERS, resumed: 0, count: PLAYERS });
        assert.ok(protocol.startsWith(version.replace("v", " ")), protocol);
        assert.equal(result.connections.connect.count, PLAYERS);
        assert.ok(handshake.p50_ns > 0 && said.includes(`Handshakes of TLS: ${PLAYERS}, p50`), said);
        assert.deepEqual(result.settings.tls, {
          trust: "the authorities in good.pem",
          insecure: false,
          resumes: true,
        });
        assert.ok(page.includes("Handshakes of TLS"));
      }
    });

    test(`a player that connects again resumes over ${version}`, async () => {
      const port = await serve(good, { minVersion: version, maxVersion: version });
      for (const flags of [[], ["--tls-fresh"]]) {
        const target = `https://localhost:${port}`;
        const { result, said } = await load(CLOSING, target, "--tls-ca", good.cert, ...flags);
        assert.deepEqual(result.errors, [], said);
        const { full, resumed, handshake } = result.connections.tls;
        assert.ok(handshake.count > 20, said);
        if (flags.length) assert.equal(full, handshake.count);
        // OpenSSL under node gives two tickets of TLS 1.3 with a full handshake, each good for once.
        else if (version === "TLSv1.3") assert.ok(full >= PLAYERS && resumed > full, said);
        else assert.equal(full, PLAYERS);
        assert.equal(full + resumed, handshake.count);
      }
    });
  }

  test("processes share the players", async () => {
    const port = await serve(good);
    const flags = ["--tls-ca", good.cert, "--processes", "2"];
    const { result, said } = await load(SCENARIO, `https://localhost:${port}`, ...flags);
    assert.deepEqual([result.errors, result.connections.tls.full], [[], PLAYERS], said);
  });

  test("nodes with TLS and without are measured as one", async () => {
    const plain = createPlain((request, response) => {
      response.shouldKeepAlive = false;
      response.end();
    });
    servers.push(plain);
    const [port, plainPort] = [await serve(good), await listen(plain)];
    const flags = ["--tls-ca", good.cert, "--target", `http://localhost:${plainPort}`, "--tls-fresh"];
    const { result, said } = await load(CLOSING, `https://localhost:${port}`, ...flags);
    assert.deepEqual(result.errors, [], said);
    const { connect, tls } = result.connections;
    // Every second player goes to each.
    assert.ok(tls.full > 10 && connect.count - tls.full > 10, said);
  });

  test("what is wrong is said, with what to do", async () => {
    const other = certificate("other", "DNS:localhost");
    const elsewhere = certificate("elsewhere", "DNS:elsewhere.example");
    const authority = certificate("authority", "DNS:localhost", "-authority");
    const plain = createPlain((request, response) => response.end());
    const [port, elsewherePort, authorityPort] = await Promise.all([
      serve(good),
      serve(elsewhere),
      serve(authority),
    ]);
    const oldPort = await serve(good, { maxVersion: "TLSv1.1", minVersion: "TLSv1", ciphers: "DEFAULT@SECLEVEL=0" });
    servers.push(plain);
    const plainPort = await listen(plain);
    for (const [at, cert, cause, cure] of [
      [port, other, "tls_unknown_issuer", "--tls-ca FILE"],
      [elsewherePort, elsewhere, "tls_wrong_name", "as its certificate does"],
      [authorityPort, authority, "tls_certificate", "CA:FALSE"],
      [plainPort, good, "tls_not_spoken", "http:// or ws:// names the other"],
      [oldPort, good, "tls_alert", "its log says why"],
    ]) {
      const { result, code, said } = await load(CLOSING, `https://localhost:${at}`, "--tls-ca", cert.cert);
      assert.deepEqual([result.errors[0].cause, code], [cause, 1], said);
      assert.ok(said.replace(/\s+/g, " ").includes(cure), said);
      assert.equal(result.ops[0].started, 0, "nothing is sent to a stranger");
    }
    // Without a flag it is this machine's authorities that count, who do not know the test.
    const { result } = await load(CLOSING, `https://localhost:${port}`);
    assert.equal(result.errors[0].cause, "tls_unknown_issuer");
  });

  test("a run that checks nobody's certificate is stamped", async () => {
    const elsewhere = certificate("elsewhere", "DNS:elsewhere.example");
    const port = await serve(elsewhere);
    const { result, page, said } = await load(CLOSING, `https://localhost:${port}`, "--tls-insecure");
    assert.deepEqual([result.errors, result.settings.tls.insecure], [[], true], said);
    assert.ok(result.notes.some((note) => note.startsWith("certificates were not checked")));
    assert.ok(page.includes("certificates not checked") && said.includes("--tls-insecure"), said);
  });
});

const hasNginx = (() => {
  try {
    execFileSync("nginx", ["-v"], { stdio: "pipe" });
    return true;
  } catch {
    return false;
  }
})();

describe("this server behind nginx", { skip: hasNginx ? throngOnly.skip : "nginx is not installed" }, () => {
  let server;
  let proxy;
  let port;
  let cert;
  before(async () => {
    server = await startServer({ options: { "socket.proxy_count": 1 } });
    cert = certificate("proxy", "DNS:localhost");
    const own = createTcp();
    port = await listen(own);
    await new Promise((done) => own.close(done));
    const place = join(folder, "nginx");
    await mkdir(place);
    const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    await writeFile(
      join(place, "nginx.conf"),
      `daemon off;
pid ${place}/pid;
worker_processes 1;
error_log stderr;
events { worker_connections 512; }
http {
  access_log off;
  ${paths.map((path) => `${path}_temp_path ${place}/${path};`).join("\n  ")}
  upstream throng { server ${server.host}:${server.port}; keepalive 32; }
  map $http_upgrade $connection_wanted { default upgrade; "" ""; }
  server {
    listen 127.0.0.1:${port} ssl;
    ssl_certificate ${cert.cert};
    ssl_certificate_key ${cert.key};
    location / {
      proxy_pass http://throng;
      proxy_http_version 1.1;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_wanted;
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_read_timeout 60s;
    }
  }
}
`,
    );
    proxy = spawn("nginx", ["-p", place, "-c", join(place, "nginx.conf"), "-e", "stderr"], { stdio: "inherit" });
    await until(
      () =>
        new Promise((done) => {
          const socket = connect(port, "127.0.0.1", () => done(true));
          socket.on("error", () => done(false));
          socket.on("connect", () => socket.destroy());
        }),
    );
  });
  after(async () => {
    if (proxy && proxy.exitCode === null) {
      proxy.kill("SIGTERM");
      await once(proxy, "exit");
    }
    await server?.stop();
  });

  for (const [scenario, ...flags] of [
    ["rpc-lua", "--rate", "50"],
    ["match", "--players", "20", "--rate", "5", "--ramp", "0s"],
  ]) {
    test(`${scenario} over https and wss`, async () => {
      const out = join(folder, "out", scenario);
      const args = ["load", scenario, "--target", `https://localhost:${port}`, "--tls-ca", cert.cert, "--out", out];
      args.push("--server-key", server.serverKey, "--http-key", server.httpKey);
      args.push("--warmup", "0s", "--duration", "2s", ...flags);
      await promisify(execFile)(binary(), args, { timeout: RUN_MS_MAX });
      const result = JSON.parse(await readFile(join(out, "result.json"), "utf8"));
      assert.deepEqual(result.errors, []);
      const headline = result.ops.find((op) => op.name === result.headline);
      assert.ok(headline.done > 0 && headline.failed === 0 && headline.unanswered === 0);
      assert.ok(result.connections.tls.full > 0);
      if (scenario === "match") {
        const { lost, doubled, reordered } = result.deliveries;
        assert.deepEqual({ lost, doubled, reordered }, { lost: 0, doubled: 0, reordered: 0 });
      }
    });
  }
});
