//! What an engine must do, whichever driver it runs on.

use std::io::{Read as _, Write as _};

use engine::{DriverChoice, Limits};

use crate::rig::{Rig, drain, echo, pattern, round_trip};

pub(crate) fn every_size_comes_back_whole(driver: DriverChoice) {
    let limits = Limits::default();
    let rig = Rig::new(driver, limits, echo);
    let client = rig.client();
    let boundaries = [
        1,
        2 << 10,
        16 << 10,
        limits.receive_buffer_bytes as usize,
        2 * limits.receive_buffer_bytes as usize,
        64 << 10,
        128 << 10,
        1 << 20,
    ];
    for (seed, boundary) in boundaries.into_iter().enumerate() {
        for size in [boundary - 1, boundary, boundary + 1] {
            let bytes = pattern(size, seed);
            assert!(round_trip(&client, &bytes) == bytes, "{size} bytes");
        }
    }
    assert_eq!(drain(client), b"");
    rig.stop();
}

pub(crate) fn a_request_split_at_every_byte_is_the_same_request(driver: DriverChoice) {
    let rig = Rig::new(driver, Limits::default(), echo);
    let mut client = rig.client();
    let request = pattern(48, 7);
    for split in 0..=request.len() {
        let (first, second) = request.split_at(split);
        client.write_all(first).unwrap();
        client.write_all(second).unwrap();
        let mut back = vec![0; request.len()];
        client.read_exact(&mut back).unwrap();
        assert_eq!(back, request, "split at {split}");
    }
    for byte in &request {
        client.write_all(&[*byte]).unwrap();
    }
    let mut back = vec![0; request.len()];
    client.read_exact(&mut back).unwrap();
    assert_eq!(back, request);
    rig.stop();
}
