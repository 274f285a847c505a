//! Memory given back to the system: the allocator keeps what large answers have left behind. When
//! it is worth it is decided in `reactor`.

// Only for its library: the binding below stands behind a feature that would compile it anew.
use libmimalloc_sys as _;

unsafe extern "C" {
    /// Source: mimalloc.h, `mi_collect(bool force)`.
    safe fn mi_collect(force: bool);
}

/// Gives back what the allocator can, of all threads' freed large pieces.
pub(crate) fn trim() {
    mi_collect(true);
}
