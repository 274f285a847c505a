//! The subcommand alone, without the server: builds in a moment.
#![allow(missing_docs, unreachable_pub)]
#[path = "../../throng/src/load.rs"]
mod load;
fn main() {
    let matches = load::command().get_matches();
    match load::run(&matches) {
        Ok(true) => {}
        Ok(false) => std::process::exit(1),
        Err(error) => {
            eprintln!("throng: {error:#}");
            std::process::exit(1);
        }
    }
}
