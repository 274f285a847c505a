//! Instances of one module that write what others write, and what they do not.

use wasmtime::{Instance, Module, Store, TypedFunc};

use super::*;

/// Starts with two pages of data, and writes when it is told to. All of it are 64 pages of 64 KiB.
const MODULE: &str = r#"(module
    (memory (export "memory") 64)
    (data (i32.const 65536) "from the file")
    (func (export "fill") (param $from i32) (param $to i32) (param $with i32)
        (memory.fill (local.get $from) (local.get $with) (i32.sub (local.get $to) (local.get $from))))
    (func (export "get") (param $at i32) (result i32) (i32.load8_u (local.get $at)))
    (func (export "grow") (result i32) (memory.grow (i32.const 1))))"#;

struct Guest {
    store: Store<()>,
    memory: Memory,
    fill: TypedFunc<(u32, u32, u32), ()>,
    get: TypedFunc<u32, u32>,
    grow: TypedFunc<(), i32>,
}

impl Guest {
    fn fill(&mut self, range: std::ops::Range<u32>, with: u32) {
        self.fill.call(&mut self.store, (range.start, range.end, with)).unwrap();
    }

    fn get(&mut self, at: u32) -> u32 {
        self.get.call(&mut self.store, at).unwrap()
    }

    fn image(&self, instances: &Instances) -> Option<Image> {
        Image::of(instances, &self.store, self.memory).unwrap()
    }

    fn share(&mut self, image: &Image) -> usize {
        image.share(&mut self.store, self.memory).unwrap()
    }

    /// Pages of its own with anything in them.
    fn own_count(&self) -> usize {
        let (memory, page_bytes) = (self.memory.data(&self.store), rustix::param::page_size());
        let own = written_pages(memory, page_bytes).unwrap();
        let pages = own.into_iter().zip(memory.chunks_exact(page_bytes));
        pages.filter(|(is_own, bytes)| *is_own && !has_zeroes(bytes)).count()
    }
}

fn engine() -> (Instances, Module) {
    let instances = Instances::new(&mut Config::new()).unwrap();
    let module = Module::new(instances.engine(), wat::parse_str(MODULE).unwrap()).unwrap();
    (instances, module)
}

fn start(instances: &Instances, module: &Module) -> Guest {
    let mut store = Store::new(instances.engine(), ());
    let instance = Instance::new(&mut store, module, &[]).unwrap();
    let memory = instance.get_memory(&mut store, "memory").unwrap();
    let fill = instance.get_typed_func(&mut store, "fill").unwrap();
    let get = instance.get_typed_func(&mut store, "get").unwrap();
    let grow = instance.get_typed_func(&mut store, "grow").unwrap();
    Guest { store, memory, fill, get, grow }
}

const KIB: u32 = 1024;

#[test]
fn what_is_the_same_is_given_back_and_what_differs_stays() {
    let (instances, module) = engine();
    let mut first = start(&instances, &module);
    first.fill(0..256 * KIB, 7);
    first.fill(512 * KIB..516 * KIB, 1);
    let image = first.image(&instances).unwrap();

    let mut second = start(&instances, &module);
    second.fill(0..256 * KIB, 7);
    // The module's own bytes are in there, and lie under it.
    second.fill(100 * KIB..101 * KIB, 9);
    second.fill(600 * KIB..604 * KIB, 2);
    let before = second.memory.data(&second.store).to_vec();
    let owned = second.own_count();
    let shared = second.share(&image);
    assert_eq!(second.memory.data(&second.store), before);
    assert_eq!(shared, 63, "of the 64 pages that both have filled");
    assert!(second.own_count() <= owned - shared, "{} of {owned}", second.own_count());

    // Each writes to what they share, and the other does not see it; nor does a third one.
    second.fill(0..8 * KIB, 3);
    assert_eq!((second.get(0), second.get(8 * KIB), first.get(0)), (3, 7, 7));
    let mut third = start(&instances, &module);
    assert_eq!((third.get(0), third.get(65_536)), (0, u32::from(b'f')));
    assert_eq!(third.share(&image), 0, "it has nothing of that, so it all stays its own");
    assert_eq!((third.get(0), third.get(65_536)), (0, u32::from(b'f')));
}

#[test]
fn the_first_one_shares_its_own_image() {
    let (instances, module) = engine();
    let mut first = start(&instances, &module);
    first.fill(0..256 * KIB, 7);
    let image = first.image(&instances).unwrap();
    assert_eq!(first.share(&image), 64);
    assert_eq!(first.own_count(), 0);
    // It goes on as before, and may grow.
    assert_eq!(first.grow.call(&mut first.store, ()).unwrap(), 64);
    first.fill(63 * 64 * KIB..65 * 64 * KIB, 4);
    assert_eq!((first.get(0), first.get(64 * 64 * KIB)), (7, 4));
    first.fill(0..KIB, 1);
    assert_eq!(first.share(&image), 63);
    assert_eq!((first.get(0), first.get(64 * 64 * KIB), first.get(KIB)), (1, 4, 7));
    drop(image);
    assert_eq!((first.get(5 * KIB), first.get(64 * 64 * KIB)), (7, 4), "what is mapped stays");
}

#[test]
fn few_pages_that_are_the_same_and_many_that_differ_are_left_alone() {
    let (instances, module) = engine();
    let mut first = start(&instances, &module);
    first.fill(0..16 * KIB, 7);
    let image = first.image(&instances).unwrap();
    let mut second = start(&instances, &module);
    second.fill(0..16 * KIB, 7);
    let owned = second.own_count();
    assert_eq!((second.share(&image), second.own_count()), (0, owned), "four pages");

    // Both have more than the image was made of.
    for _ in 0..200 {
        first.grow.call(&mut first.store, ()).unwrap();
        second.grow.call(&mut second.store, ()).unwrap();
    }
    first.fill(0..256 * KIB, 7);
    first.fill(10 << 20..(10 << 20) + 1, 1);
    let image = first.image(&instances).unwrap();
    second.fill(0..256 * KIB, 7);
    second.fill(1 << 20..6 << 20, 2);
    assert_eq!(second.share(&image), 0, "5 MiB that are its own");
    second.fill(2 << 20..6 << 20, 0);
    assert_eq!(second.share(&image), 64);
    assert_eq!((second.get(256 * KIB - 1), second.get(1 << 20), second.get(6 << 20)), (7, 2, 0));
}

#[test]
fn a_memory_that_is_smaller_shares_what_it_has() {
    let (instances, module) = engine();
    let mut first = start(&instances, &module);
    first.fill(0..256 * KIB, 7);
    first.grow.call(&mut first.store, ()).unwrap();
    first.fill(64 * 64 * KIB..65 * 64 * KIB, 7);
    let image = first.image(&instances).unwrap();
    let mut second = start(&instances, &module);
    second.fill(0..256 * KIB, 7);
    assert_eq!(second.share(&image), 64);
    assert_eq!((second.get(255 * KIB), second.get(256 * KIB)), (7, 0));
}

#[test]
fn what_the_first_one_has_cleared_is_not_cleared_in_others() {
    let (instances, module) = engine();
    let mut first = start(&instances, &module);
    first.fill(0..256 * KIB, 7);
    first.fill(64 * KIB..68 * KIB, 0);
    let image = first.image(&instances).unwrap();
    let mut second = start(&instances, &module);
    second.fill(128 * KIB..256 * KIB, 7);
    assert_eq!(second.share(&image), 32);
    assert_eq!(second.get(64 * KIB), u32::from(b'f'), "from the module's file");
}

#[test]
fn who_has_written_much_is_no_image() {
    let (instances, module) = engine();
    let mut first = start(&instances, &module);
    first.fill(0..64 * 64 * KIB, 7);
    assert!(first.image(&instances).is_some());
    for _ in 0..2 {
        first.grow.call(&mut first.store, ()).unwrap();
    }
    first.fill(64 * 64 * KIB..65 * 64 * KIB, 7);
    assert!(first.image(&instances).is_none());
}

#[test]
fn which_page_is_own_says_the_kernel() {
    // In memory; put out; a file's; not there.
    for (flags, expected) in
        [(1 << 63, true), (1 << 62, true), (1 << 63 | 1 << 61, false), (0, false)]
    {
        assert_eq!(is_own(flags), expected, "{flags:x}");
    }
}

#[test]
#[should_panic(expected = "memory of another engine")]
fn memory_of_another_engine_is_refused() {
    let (instances, module) = engine();
    let first = start(&instances, &module);
    let image = first.image(&instances).unwrap();
    let (others, module) = engine();
    let mut other = start(&others, &module);
    other.share(&image);
}
