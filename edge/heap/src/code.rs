//! Scripts that are compiled once and run in many VMs: to read bytecode back takes a part of the time that compiling
//! takes, and leaves no holes in the VM's memory where the compiler's own data was.
//!
//! In: [`Code::compile`], of a script's text. Out: [`Code::run`], in any VM of this process. Nothing is written to
//! files: the engine believes bytecode whatever it says, so that it is never anybody else's than its own.

use std::ffi::CString;

use rquickjs::{Ctx, Error, Value, qjs};

/// A script's bytecode.
#[derive(Clone, Debug)]
pub struct Code(Vec<u8>);

/// Whether functions know their text, for `toString`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// They do: every function has a copy of its own.
    Kept,
    /// They look like built-in ones.
    Stripped,
}

impl Code {
    /// Compiles a script in strict mode; `file` is what stack traces call it.
    ///
    /// # Errors
    /// The exception that is pending: the text is wrong, or memory runs out.
    pub fn compile(ctx: &Ctx<'_>, text: &str, file: &str, source: Source) -> Result<Self, Error> {
        let flags =
            qjs::JS_EVAL_TYPE_GLOBAL | qjs::JS_EVAL_FLAG_STRICT | qjs::JS_EVAL_FLAG_COMPILE_ONLY;
        let (text, file) = (CString::new(text)?, CString::new(file)?);
        let (bytes, raw) = (text.as_bytes().len(), ctx.as_raw().as_ptr());
        // SAFETY: the VM is locked here, and both texts end with a zero, which is not in the length.
        let script = unsafe {
            qjs::JS_UpdateStackTop(qjs::JS_GetRuntime(raw));
            qjs::JS_Eval(raw, text.as_ptr(), bytes as _, file.as_ptr(), flags.cast_signed())
        };
        // SAFETY: the value is ours, and is given up here.
        let script = unsafe { Value::from_raw(ctx.clone(), script) };
        if script.is_exception() {
            return Err(Error::Exception);
        }
        let strip = if source == Source::Stripped { qjs::JS_WRITE_OBJ_STRIP_SOURCE } else { 0 };
        let flags = (qjs::JS_WRITE_OBJ_BYTECODE | strip).cast_signed();
        let mut length = 0;
        // The engine writes on where memory has run out, and gives what it has: bytes that mean something else. That an
        // exception is pending then tells so (`js_realloc` throws it).
        drop(ctx.catch());
        // SAFETY: the value is a function of this VM, as `JS_Eval` gives it.
        let written = unsafe { qjs::JS_WriteObject(raw, &raw mut length, script.as_raw(), flags) };
        if written.is_null() {
            return Err(thrown(ctx));
        }
        let Ok(length) = usize::try_from(length) else {
            unreachable!("{length} bytes are in memory")
        };
        // SAFETY: so many bytes were written there.
        let code = unsafe { std::slice::from_raw_parts(written, length) }.to_vec();
        // SAFETY: the engine leaves it to its caller.
        unsafe { qjs::js_free(raw, written.cast()) };
        if ctx.has_exception() { Err(Error::Exception) } else { Ok(Self(code)) }
    }

    /// Runs the script; gives what its last expression comes to.
    ///
    /// # Errors
    /// The exception that is pending: the script's, or memory runs out.
    pub fn run<'js>(&self, ctx: &Ctx<'js>) -> Result<Value<'js>, Error> {
        let raw = ctx.as_raw().as_ptr();
        let flags = qjs::JS_READ_OBJ_BYTECODE.cast_signed();
        // SAFETY: the VM is locked here, and the bytes are what an engine of this process has written.
        let script = unsafe {
            qjs::JS_UpdateStackTop(qjs::JS_GetRuntime(raw));
            qjs::JS_ReadObject(raw, self.0.as_ptr(), self.0.len() as _, flags)
        };
        // SAFETY: it only looks at the value's tag.
        if unsafe { qjs::JS_IsException(script) } {
            return Err(thrown(ctx));
        }
        // SAFETY: the value is a function of this VM, and is given up here.
        let result = unsafe { qjs::JS_EvalFunction(raw, script) };
        // SAFETY: the value is ours, and is given up here.
        let result = unsafe { Value::from_raw(ctx.clone(), result) };
        if result.is_exception() { Err(Error::Exception) } else { Ok(result) }
    }
}

/// Bytecode is not written, or not read: the exception that is pending says why. Where the engine has thrown none, memory
/// has run out.
fn thrown(ctx: &Ctx<'_>) -> Error {
    if !ctx.has_exception() {
        // SAFETY: the VM is locked here.
        unsafe { qjs::JS_ThrowOutOfMemory(ctx.as_raw().as_ptr()) };
    }
    Error::Exception
}

#[cfg(test)]
mod tests {
    use rquickjs::{Context, Runtime};

    use super::{Code, Source};

    fn vm() -> (Runtime, Context) {
        let runtime =
            Runtime::new_with_alloc(crate::Heap::default().allocator()).expect("a runtime");
        let context = Context::full(&runtime).expect("a context");
        (runtime, context)
    }

    fn code(text: &str, source: Source) -> Code {
        vm().1.with(|ctx| Code::compile(&ctx, text, "a.js", source)).expect(text)
    }

    /// What `text` comes to in a VM that has not compiled it, as text.
    fn run(text: &str, source: Source) -> String {
        let code = code(text, source);
        vm().1.with(|ctx| code.run(&ctx).and_then(|value| value.get()).expect(text))
    }

    #[test]
    fn a_script_runs_in_a_vm_that_has_not_compiled_it() {
        let text = "class A { #x = 1n << 70n; get() { return `${this.#x} ${/b+/.exec('abbc')}`; } } new A().get()";
        assert_eq!(run(text, Source::Stripped), "1180591620717411303424 bb");
        let globals = "function f() { return this === undefined; } var there = f; `${there()} ${globalThis.f === f}`";
        assert_eq!(run(globals, Source::Kept), "true true");
        let place = "function f() { return new Error('x').stack; }\nf()";
        assert!(run(place, Source::Stripped).contains("at f (a.js:1:"), "lines are known");
    }

    #[test]
    fn functions_know_their_text_if_it_is_kept() {
        let text = "(function (a) { return a; }).toString()";
        assert_eq!(run(text, Source::Kept), "function (a) { return a; }");
        assert!(!run(text, Source::Stripped).contains("return"));
    }

    #[test]
    fn what_goes_wrong_is_an_exception_of_the_vm() {
        let (_runtime, context) = vm();
        context.with(|ctx| {
            assert!(Code::compile(&ctx, "let let", "a.js", Source::Kept).is_err());
            let caught = format!("{:?}", ctx.catch());
            assert!(caught.contains("a.js:1"), "{caught}");
            assert!(code("throw 7", Source::Kept).run(&ctx).is_err());
            assert_eq!(ctx.catch().as_int(), Some(7));
        });
    }

    /// What the engine writes and reads without memory is no script.
    #[test]
    fn memory_that_runs_out_anywhere_is_an_error() {
        // Long names and texts, of which the buffers grow while they are written.
        let functions = (0..48).map(|at| {
            let long = format!("{at}_{}", "long".repeat(8 * at));
            format!("function name_{long}() {{ return 'text {long}'; }}\n")
        });
        let text = functions.collect::<String>() + "7";
        let (mut compiled, mut ran) = ([0, 0], [0, 0]);
        let whole = code(&text, Source::Kept);
        for kib in 0..512 {
            let (runtime, context) = vm();
            let before_bytes = usize::try_from(runtime.memory_usage().malloc_size).expect("a size");
            runtime.set_memory_limit(before_bytes + kib * 1_024);
            context.with(|ctx| match Code::compile(&ctx, &text, "a.js", Source::Kept) {
                Ok(made) => {
                    assert!(made.0 == whole.0, "{kib} KiB: a part of it is written");
                    compiled[0] += 1;
                }
                Err(_) => compiled[1] += usize::from(ctx.has_exception()),
            });
            let (runtime, context) = vm();
            runtime.set_memory_limit(before_bytes + kib * 1_024);
            context.with(|ctx| match whole.run(&ctx) {
                Ok(value) => {
                    assert_eq!(value.as_int(), Some(7));
                    ran[0] += 1;
                }
                Err(_) => ran[1] += usize::from(ctx.has_exception()),
            });
        }
        for [well, without_memory] in [compiled, ran] {
            assert!(well > 20 && without_memory > 20, "{compiled:?} {ran:?}");
            assert_eq!(well + without_memory, 512, "an error has its exception");
        }
    }

    #[test]
    fn a_vm_without_memory_says_so() {
        let code = code(
            &"function f() { return 'a text that takes some room'; }\n".repeat(2_000),
            Source::Kept,
        );
        let (runtime, context) = vm();
        runtime.set_memory_limit(256 * 1024);
        assert!(context.with(|ctx| code.run(&ctx).is_err()));
        runtime.set_memory_limit(0);
        assert!(context.with(|ctx| code.run(&ctx).is_ok()), "and goes on with more");
    }
}
