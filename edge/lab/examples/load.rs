//! The subcommand alone, without the server: builds in a moment.
#![allow(missing_docs, unreachable_pub)]
#[path = "../../throng/src/load.rs"]
mod load;
fn main() {
    let matches = load::command().get_matches();
    if let Err(error) = load::run(&matches) {
        eprintln!("throng: {error:#}");
        std::process::exit(1);
    }
}
