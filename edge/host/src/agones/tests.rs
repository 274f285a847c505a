//! Files of Agones, as its documentation has them, right and wrong.

use super::parse;
use super::table::{bytes, quantity};
use crate::fleet::{Fleet, Restart, Wall};

const FLEET: &str = r#"
apiVersion: agones.dev/v1
kind: Fleet
metadata:
  name: simple-game-server
  labels: { team: a }
spec:
  replicas: 2
  scheduling: Packed
  strategy: { type: RollingUpdate }
  template:
    metadata:
      labels: { mode: ctf }
      annotations: { note: "any text" }
    spec:
      container: simple
      ports:
        - name: default
          portPolicy: Dynamic
          containerPort: 7654
          protocol: UDP
        - name: rcon
          portPolicy: Static
          containerPort: 7655
          hostPort: 7777
          protocol: TCP
      health: { initialDelaySeconds: 30, periodSeconds: 2, failureThreshold: 5 }
      sdkServer: { logLevel: Info, grpcPort: 9457 }
      counters: { rooms: { count: 0, capacity: 10 } }
      lists: { players: { capacity: 16, values: [a] } }
      players: { initialCapacity: 12 }
      template:
        spec:
          nodeSelector: { disk: ssd }
          terminationGracePeriodSeconds: 12
          containers:
            - name: logger
              image: logger:1
            - name: simple
              image: example.com/simple-game-server:0.39
              command: ["/srv/game/server"]
              args: ["--mode", "$(MODE)", 5]
              workingDir: /srv/game
              env:
                - { name: MODE, value: ctf }
                - { name: SELF, valueFrom: { fieldRef: { fieldPath: metadata.name } } }
              resources:
                requests: { memory: 64Mi, cpu: 250m }
                limits: { memory: 128Mi, cpu: "1" }
"#;

fn read(text: &str) -> Fleet {
    parse(text, Wall::Network).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_fleet_is_read_and_what_is_not_done_is_named() {
    let fleet = read(FLEET);
    let server = &fleet.server[0];
    assert_eq!(
        server.names().collect::<Vec<_>>(),
        ["simple-game-server-1", "simple-game-server-2"]
    );
    assert_eq!(server.command, ["/srv/game/server", "--mode", "ctf", "5"]);
    assert_eq!((&*server.env["MODE"], &*server.env["SELF"]), ("ctf", "{name}"));
    assert_eq!((server.wall, server.restart), (Wall::Network, Restart::Always));
    assert_eq!((server.port, server.cpu.weight), (Some(7_654), Some(25)));
    assert_eq!(server.limits.memory.unwrap().0, 128 << 20);
    assert_eq!(server.stop_grace.unwrap().0.as_secs(), 12);
    assert!(server.ready.sdk);
    let agones = server.agones.as_ref().unwrap();
    assert_eq!(agones.ports[1].name, "rcon");
    assert_eq!(agones.doors(), (9_457, 9_358));
    assert_eq!((agones.health.period().as_secs(), agones.health.failures()), (2, 5));
    assert_eq!((agones.counters["rooms"].capacity, agones.players), (10, Some(12)));
    assert_eq!(agones.lists["players"].values, ["a"]);
    assert_eq!(&*agones.labels["mode"], "ctf");
    assert_eq!(&*agones.labels["agones.dev/fleet"], "simple-game-server");
    let notes = fleet.notes.join("\n");
    for part in [
        "spec.scheduling: there is one machine",
        "spec.strategy: a changed file",
        "ports[1].hostPort: 7777: no port is translated; it is 7655",
        "nodeSelector: there is one machine",
        "containers[0]: `logger` is not started",
        "containers[1].image: example.com/simple-game-server:0.39 is not run: the program is /srv/game",
        "resources.limits.cpu: a limit that is reached takes whole ticks away",
        "resources.requests.memory: nothing is set aside",
    ] {
        assert!(notes.contains(part), "{part}\n{notes}");
    }
    assert_eq!(fleet.notes.len(), 8, "{notes}");
}

const SERVER: &str = r#"
apiVersion: agones.dev/v1
kind: GameServer
metadata: { generateName: "udp-", annotations: { throng.dev/wall: process } }
spec:
  ports: [{ portPolicy: Passthrough }]
  template:
    spec:
      containers: [{ name: a, image: a, command: [/bin/a], resources: { limits: { memory: 1G } } }]
"#;

#[test]
fn a_server_alone_is_read_and_documents_of_others_are_passed_over() {
    let fleet = read(&format!("{SERVER}---\napiVersion: v1\nkind: Service\n"));
    let server = &fleet.server[0];
    assert_eq!((&*server.name, server.count, server.wall), ("udp", None, Wall::Process));
    assert_eq!((server.port, server.restart), (Some(7_000), Restart::OnFailure));
    assert_eq!(server.limits.memory, None);
    let notes = fleet.notes.join("\n");
    assert!(notes.contains("kind Service"), "{notes}");
    assert!(notes.contains("limits.memory: takes wall cgroup"), "{notes}");
}

#[test]
fn mistakes_say_where_and_what() {
    for (from, to, parts) in [
        (
            "command: [\"/srv/game/server\"]",
            "tty: true",
            &["command: is missing: images are not run"][..],
        ),
        (
            "containerPort: 7654",
            "protocol2: x",
            &["spec.template.spec.ports[0].containerPort: is missing"],
        ),
        ("portPolicy: Dynamic", "portPolicy: Any", &["portPolicy: Dynamic, Static"]),
        ("replicas: 2", "replicas: two", &["spec.replicas: has to be a number"]),
        ("128Mi", "lots", &["limits.memory: a number of bytes"]),
        ("capacity: 16", "capacity: 2000", &["`agones.lists`", "`players`"]),
        ("kind: Fleet", "kind: FleetAutoscaler", &["no GameServer and no Fleet"]),
        (
            "labels: { mode: ctf }",
            "labels: { mode: \"c t f\" }",
            &["`agones.labels`", "Kubernetes"],
        ),
        ("  name: simple-game-server\n", "  name: Simple.Game\n", &["`name`: 1 to 40"]),
        ("spec:\n  replicas", "spec: [\n  replicas", &["line"]),
    ] {
        assert!(FLEET.contains(from), "{from}");
        let error = parse(&FLEET.replacen(from, to, 1), Wall::Network).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{to}\n{part}\n{error}");
        }
    }
    let error = parse(FLEET, Wall::Process).unwrap_err().to_string();
    assert!(error.contains("cannot all bind it: Passthrough"), "{error}");
}

#[test]
fn quantities_are_as_kubernetes_writes_them() {
    for (text, number) in
        [("500m", 0.5), ("2", 2.0), ("1.5", 1.5), ("64Mi", 67_108_864.0), ("1e3", 1e3)]
    {
        assert!((quantity(text).unwrap() - number).abs() < 1e-9, "{text}");
    }
    for text in ["", "m", "-1", "x", "Mi", "inf", "NaN", ".5"] {
        assert_eq!(quantity(text), None, "{text}");
    }
    assert_eq!(
        (bytes("128974848"), bytes("1k"), bytes("0")),
        (Some(128_974_848), Some(1_000), None)
    );
}

#[test]
fn a_key_that_is_nearly_one_is_asked_about() {
    let fleet = read(&FLEET.replace("replicas: 2", "replica: 2"));
    assert_eq!(fleet.server[0].count, Some(1));
    let note = fleet.notes.iter().find(|it| it.contains("spec.replica")).unwrap();
    assert!(note.contains("did you mean `replicas`?"), "{note}");
}
