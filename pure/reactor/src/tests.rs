//! One thread turned by hand, where the seeds of `tests/it` would not notice: exact bounds, what is
//! counted, who is woken when, and what a driver is asked.

mod datagrams;
mod ends;
mod fair;
mod hand;
mod mail;
mod output;
mod turn;
