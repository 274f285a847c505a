//! Which system calls a server may not make: those that change the machine, look into other processes,
//! or make walls of their own, and those of which mostly the kernel's mistakes are known. A list of what
//! is refused, not of what is allowed: a game server is anybody's program, and an error that no player
//! ever sees is worth less than one that runs. The server's own user without capabilities is the wall;
//! this is the second one.
//!
//! Refused calls fail with EPERM (clone3 and io_uring with ENOSYS, so that libraries take the older way).
//! Programs of another architecture (32 bits) are ended by the filter: `seccomp = "off"`. On x86_64 a kernel
//! may have each call a second time, as x32 has it: with a bit more in its number, which no rule here
//! names; all of those are refused.
//!
//! Source: seccomp(2), NOTES on x32; the groups follow the default profile that container engines document.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::ChildError;

/// Calls that are refused whatever their arguments.
const REFUSED: &[i64] = &[
    // The machine: clocks, modules, swap, accounts, another kernel.
    libc::SYS_acct,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    // Mounts and walls.
    libc::SYS_chroot,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_setns,
    libc::SYS_umount2,
    libc::SYS_unshare,
    // Other processes.
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    // Files behind a path's back, keys, the kernel's own machines.
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_fanotify_init,
    libc::SYS_keyctl,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_perf_event_open,
    libc::SYS_request_key,
    libc::SYS_userfaultfd,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
];

/// Calls that are said not to exist. clone3 hides its flags from filters.
const ABSENT: &[i64] = &[
    libc::SYS_clone3,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
];

/// Flags of clone that make namespaces. Source: clone(2).
const NAMESPACES: u64 = 0x7e02_0000;

/// Families of sockets for the machine's own ends: packet, crypto, virtual machines.
const FAMILIES: &[u64] = &[17, 38, 40];

/// Filters the calls of this process and of all that come from it.
pub(super) fn apply() -> Result<(), ChildError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    // Any of the flags: there is no such comparison, so each has a rule.
    let mut flags = Vec::new();
    for bit in (0..64).map(|bit| 1_u64 << bit).filter(|bit| NAMESPACES & bit != 0) {
        flags.push(rule(0, SeccompCmpOp::MaskedEq(bit), bit)?);
    }
    rules.insert(libc::SYS_clone, flags);
    let families = FAMILIES.iter().map(|family| rule(0, SeccompCmpOp::Eq, *family));
    rules.insert(libc::SYS_socket, families.collect::<Result<_, _>>()?);
    install(rules, libc::EPERM)?;
    install(ABSENT.iter().map(|call| (*call, Vec::new())).collect(), libc::ENOSYS)?;
    // Last, because installing takes calls; the kernel obeys the strictest of them all the same.
    if cfg!(target_arch = "x86_64") {
        let failed = |error: seccompiler::Error| ChildError::Filter(error.to_string());
        seccompiler::apply_filter(&second_numbers()).map_err(failed)?;
    }
    Ok(())
}

/// Refuses the calls of x32, whatever they are. The rules of the crate above compare whole numbers. Which
/// architecture a number is of, its programs have asked before.
#[expect(clippy::cast_possible_truncation, reason = "codes of instructions have 16 bits")]
fn second_numbers() -> [sock_filter; 4] {
    /// Where the number is. Source: seccomp(2), `struct seccomp_data`.
    const NUMBER: u32 = 0;
    /// `__X32_SYSCALL_BIT`. Source: the kernel's arch/x86/include/uapi/asm/unistd.h.
    const X32: u32 = 0x4000_0000;
    // Source: the kernel's include/uapi/linux/bpf_common.h.
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IS_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    const ANSWER: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, skipped, k| sock_filter { code, jt: 0, jf: skipped, k };
    [
        step(LOAD, 0, NUMBER),
        step(IS_AT_LEAST, 1, X32),
        step(ANSWER, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs()),
        step(ANSWER, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

fn rule(argument: u8, how: SeccompCmpOp, value: u64) -> Result<SeccompRule, ChildError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value)
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(|error| ChildError::Filter(error.to_string()))
}

fn install(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> Result<(), ChildError> {
    let failed = |error: String| ChildError::Filter(error);
    let target =
        TargetArch::try_from(std::env::consts::ARCH).map_err(|it| failed(it.to_string()))?;
    let refused = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, target)
        .map_err(|error| failed(error.to_string()))?;
    let program: BpfProgram =
        filter.try_into().map_err(|error: seccompiler::BackendError| failed(error.to_string()))?;
    seccompiler::apply_filter(&program).map_err(|error| failed(error.to_string()))
}
