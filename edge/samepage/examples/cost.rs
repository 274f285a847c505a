//! What it takes to make an image, and to share it: of an instance that is like a match in Go when it has begun, and of
//! the dearest that there is. `cargo run --release -p samepage --example cost`

#![allow(clippy::unwrap_used, reason = "a tool for developers")]

use std::time::Instant;

use samepage::{Image, Instances, KEPT_BYTES_MAX, WRITTEN_BYTES_MAX};
use wasmtime::{Config, Instance, Memory, Module, Store};

const MODULE: &str = r#"(module (memory (export "memory") 256) (func (export "fill") (param i32 i32 i32)
    (memory.fill (local.get 0) (local.get 2) (local.get 1))))"#;
const TIMES: u32 = 20;

fn start(
    instances: &Instances,
    module: &Module,
    fills: &[(usize, usize, u32)],
) -> (Store<()>, Memory) {
    let mut store = Store::new(instances.engine(), ());
    let instance = Instance::new(&mut store, module, &[]).unwrap();
    let fill = instance.get_typed_func::<(u32, u32, u32), ()>(&mut store, "fill").unwrap();
    for (at, bytes, with) in fills {
        let (at, bytes) = (u32::try_from(*at).unwrap(), u32::try_from(*bytes).unwrap());
        fill.call(&mut store, (at, bytes, *with)).unwrap();
    }
    let memory = instance.get_memory(&mut store, "memory").unwrap();
    (store, memory)
}

fn main() {
    let instances = Instances::new(&mut Config::new()).unwrap();
    let module = Module::new(instances.engine(), wat::parse_str(MODULE).unwrap()).unwrap();
    for (what, same, own) in [
        ("80 pages alike, 16 not", 80 * 4_096, 16 * 4_096),
        ("all that is allowed", WRITTEN_BYTES_MAX, KEPT_BYTES_MAX),
    ] {
        let fills = |with| [(0, same, 7), (WRITTEN_BYTES_MAX, own, with)];
        let (store, memory) = start(&instances, &module, &fills(0)[..1]);
        let begin = Instant::now();
        let image = Image::of(&instances, &store, memory).unwrap().unwrap();
        println!("{what}: an image takes {:?}", begin.elapsed());
        let mut longest = std::time::Duration::ZERO;
        for with in 1..=TIMES {
            let (mut store, memory) = start(&instances, &module, &fills(with));
            let begin = Instant::now();
            let shared = image.share(&mut store, memory).unwrap();
            longest = longest.max(begin.elapsed());
            assert_eq!(shared, same / 4_096);
        }
        println!("{what}: to share it takes {longest:?} at most, of {TIMES}");
    }
}
