//! Messages that a bare server sends to all who are connected.

use super::{Folder, Process, listens, load};

#[test]
fn what_is_published_reaches_everybody_once() {
    let folder = Folder::new("room");
    let mut server = Process::server(&["echo", "--port", "0"]);
    let url = format!("http://127.0.0.1:{}", listens(&mut server));
    for (scenario, how) in [
        ("ws-room-8", &["--rate", "20"][..]),
        ("ws-room", &["--saturate"]),
        ("ws-room-8", &["--saturate"]),
    ] {
        let args = [&[scenario, "--target", &url, "--players", "20"], how].concat();
        let (ran, result) = load(&folder, &args);
        assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
        let deliveries = &result["deliveries"];
        let count = |name: &str| deliveries[name].as_i64().unwrap();
        assert!(count("broadcasts_sent") > 40, "{deliveries}");
        for wrong in ["lost", "doubled", "reordered", "foreign", "untracked"] {
            assert_eq!(deliveries[wrong], 0, "{wrong}: {deliveries}");
        }
        // What was sent last may be under way when the counting ends.
        let missing = 20 * count("broadcasts_sent") - count("broadcasts");
        assert!((0..=20 * 8).contains(&missing), "{deliveries}");
    }
}
