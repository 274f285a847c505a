//! The guest code of one thread in all languages: each function runs in the language that registered it.
//! Where two have registered the same, it is the first language's that runs, and the author is told:
//! WebAssembly is before Lua and JavaScript, as Go is in Nakama.
//!
//! Calls keep their number in whatever language they run; a match is of the first language that has one
//! of its name.
//!
//! Source: nakama 3.40, `server/runtime.go`, `NewRuntime`: Go before Lua before JavaScript.

use std::collections::BTreeMap;

use game::guest::{
    Answer, CallContext, CallId, Callee, Finding, GuestCall, HookForm, Host, MatchContext,
    MatchScript, Registered, Retired, Returned, ScriptError, ScriptFailure, Scripts, Step,
    in_any_case,
};

/// A language by its name, as it is on one thread.
pub(super) type Language = (&'static str, Box<dyn Scripts + Send>);

/// What a language has registered of one kind.
type Ids = fn(&Registered) -> &Vec<String>;

/// All languages, the one that goes first before the others.
pub(super) struct Languages {
    languages: Vec<Language>,
    registered: Registered,
    /// The language of each function, by its name.
    rpc: Owners,
    before: Owners,
    after: Owners,
    events: Owners,
    /// The languages of calls that wait.
    waiting: BTreeMap<CallId, usize>,
    /// The one whose calls that wait held the most too much, at the last look.
    crowded: Option<usize>,
    /// What ran calls is given away once, whichever language had no more.
    is_spent: bool,
}

/// Places of languages, by the names of what they have registered.
type Owners = BTreeMap<String, usize>;

impl Languages {
    pub(super) fn new(languages: Vec<Language>) -> Self {
        let mut all = Registered::default();
        let [mut rpc, mut before, mut after, mut events] = [const { Owners::new() }; 4];
        for (place, (name, scripts)) in languages.iter().enumerate() {
            let one = scripts.registered();
            let kinds: [(_, _, _, &mut Owners, Ids); 4] = [
                ("rpc", "the RPC", &mut all.rpc, &mut rpc, |of| &of.rpc),
                ("before", "the before-hook of", &mut all.before, &mut before, |of| &of.before),
                ("after", "the after-hook of", &mut all.after, &mut after, |of| &of.after),
                ("event", "the function for", &mut all.events, &mut events, |of| &of.events),
            ];
            for (kind, what, known, owners, ids) in kinds {
                for id in ids(one) {
                    if let Some(first) = owners.get(id) {
                        let first = languages.get(*first).map_or(*name, |(first, _)| *first);
                        all.findings.push(twice((first, name), what, id));
                    } else {
                        owners.insert(id.clone(), place);
                        known.push(id.clone());
                        let name = format!("{kind} {id}");
                        all.blocking.extend(one.blocking.contains(&name).then_some(name));
                    }
                }
            }
            all.modules.extend(one.modules.iter().cloned());
            let new = one
                .locations
                .iter()
                .filter(|(name, _)| !all.locations.iter().any(|(known, _)| known == name));
            let new: Vec<_> = new.cloned().collect();
            all.locations.extend(new);
            all.findings.extend(one.findings.iter().cloned());
        }
        let (registered, waiting) = (all, BTreeMap::new());
        let (crowded, is_spent) = (None, false);
        Self { languages, registered, rpc, before, after, events, waiting, crowded, is_spent }
    }

    fn of_call(&self, call: &GuestCall<'_>) -> usize {
        match call {
            GuestCall::Rpc { id, .. } => self.of_callee(Callee::Rpc(id)),
            GuestCall::Before { id, .. } => self.of_callee(Callee::Before(id)),
            GuestCall::After { id, .. } => self.of_callee(Callee::After(id)),
            GuestCall::Event { name, .. } => owner(&self.events, name),
        }
    }

    fn of_callee(&self, callee: Callee<'_>) -> usize {
        match callee {
            Callee::Rpc(id) => owner(&self.rpc, id),
            Callee::Before(name) => owner(&self.before, name),
            Callee::After(name) => owner(&self.after, name),
        }
    }

    /// Keeps in mind which language a call waits in.
    fn note(&mut self, id: CallId, language: usize, step: Step<Returned>) -> Step<Returned> {
        match &step {
            Step::Waits(_) | Step::Paused => self.waiting.insert(id, language),
            Step::Done(_) => self.waiting.remove(&id),
        };
        step
    }
}

/// The language of a function, whose case may not count; the first of all if there is none, so that it words the
/// refusal.
fn owner(owners: &Owners, id: &str) -> usize {
    in_any_case(owners, id).map_or(0, |(_, place)| *place)
}

/// The line about what a language registers that another one before it has.
fn twice((first, name): (&str, &str), what: &str, id: &str) -> Finding {
    let text = format!(
        "{what} {id} is registered in {first} and in {name}: the one in {first} runs, as in Nakama"
    );
    Finding { is_certain: false, text }
}

impl Scripts for Languages {
    fn registered(&self) -> &Registered {
        &self.registered
    }

    fn hook_form(&self, hook: Callee<'_>) -> HookForm {
        let scripts = self.languages.get(self.of_callee(hook));
        scripts.map_or_else(HookForm::default, |(_, scripts)| scripts.hook_form(hook))
    }

    fn has_room(&self, callee: Callee<'_>) -> bool {
        let scripts = self.languages.get(self.of_callee(callee));
        scripts.is_none_or(|(_, scripts)| scripts.has_room(callee))
    }

    fn call(
        &mut self,
        host: &mut dyn Host,
        id: CallId,
        context: &CallContext,
        call: GuestCall<'_>,
    ) -> Step<Returned> {
        let language = self.of_call(&call);
        let Some((_, scripts)) = self.languages.get_mut(language) else {
            return Step::Done(Err(missing()));
        };
        let step = scripts.call(host, id, context, call);
        self.note(id, language, step)
    }

    fn resume(&mut self, host: &mut dyn Host, id: CallId, answer: Answer) -> Step<Returned> {
        let language = self.waiting.get(&id).copied().unwrap_or(0);
        let Some((_, scripts)) = self.languages.get_mut(language) else {
            return Step::Done(Err(missing()));
        };
        let step = scripts.resume(host, id, answer);
        self.note(id, language, step)
    }

    fn go_on(&mut self, host: &mut dyn Host, id: CallId) -> Step<Returned> {
        let language = self.waiting.get(&id).copied().unwrap_or(0);
        let Some((_, scripts)) = self.languages.get_mut(language) else {
            return Step::Done(Err(missing()));
        };
        let step = scripts.go_on(host, id);
        self.note(id, language, step)
    }

    fn cancel(&mut self, id: CallId) {
        let language = self.waiting.remove(&id);
        if let Some((_, scripts)) = language.and_then(|language| self.languages.get_mut(language)) {
            scripts.cancel(id);
        }
    }

    fn location(&self, id: CallId) -> String {
        let language = self.waiting.get(&id).and_then(|language| self.languages.get(*language));
        language.map_or_else(String::new, |(_, scripts)| scripts.location(id))
    }

    /// Each language has memory of its own: of the one that has the most too much. Whoever asks again comes to the next.
    fn excess_bytes(&mut self) -> usize {
        let excesses = self.languages.iter_mut().map(|(_, scripts)| scripts.excess_bytes());
        let most = excesses.enumerate().max_by_key(|(_, bytes)| *bytes);
        let crowded = most.filter(|(_, bytes)| *bytes > 0);
        self.crowded = crowded.map(|(language, _)| language);
        crowded.map_or(0, |(_, bytes)| bytes)
    }

    /// A call in another language has nothing to give back of that.
    fn weight_bytes(&self, id: CallId) -> usize {
        let language = self.waiting.get(&id).filter(|language| self.crowded == Some(**language));
        let scripts = language.and_then(|language| self.languages.get(*language));
        scripts.map_or(0, |(_, scripts)| scripts.weight_bytes(id))
    }

    fn take_spent(&mut self) -> Option<Retired> {
        if self.is_spent {
            return None;
        }
        let spent = self.languages.iter_mut().find_map(|(_, scripts)| scripts.take_spent());
        self.is_spent = spent.is_some();
        spent
    }

    fn is_spent_by_others(&self) -> bool {
        self.languages.iter().any(|(_, scripts)| scripts.is_spent_by_others())
    }

    fn take_left(&mut self) -> Option<Retired> {
        self.languages.iter_mut().find_map(|(_, scripts)| scripts.take_left())
    }

    fn match_new(
        &mut self,
        host: &mut dyn Host,
        context: &MatchContext,
        module: &str,
    ) -> Result<Box<dyn MatchScript>, ScriptError> {
        let mut refused = missing();
        for (_, scripts) in &mut self.languages {
            match scripts.match_new(host, context, module) {
                Err(error) if error.kind == ScriptFailure::NotFound => refused = error,
                other => return other,
            }
        }
        Err(refused)
    }
}

/// The error of a server without any language.
fn missing() -> ScriptError {
    ScriptError {
        code: 5,
        message: "not found".to_owned(),
        location: String::new(),
        kind: ScriptFailure::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use game::api::Style;

    use super::*;

    /// A language that has registered things, whose calls that wait have so much to give back, each as much as its number
    /// says.
    struct Fake(Registered, Style, usize);

    impl Scripts for Fake {
        fn registered(&self) -> &Registered {
            &self.0
        }

        fn hook_form(&self, _hook: Callee<'_>) -> HookForm {
            HookForm { style: self.1, ..HookForm::default() }
        }

        fn call(
            &mut self,
            _: &mut dyn Host,
            _: CallId,
            _: &CallContext,
            _: GuestCall<'_>,
        ) -> Step<Returned> {
            Step::Done(Ok(Returned::Nothing))
        }

        fn resume(&mut self, _: &mut dyn Host, _: CallId, _: Answer) -> Step<Returned> {
            Step::Done(Ok(Returned::Nothing))
        }

        fn cancel(&mut self, id: CallId) {
            self.2 -= self.weight_bytes(id);
        }

        fn excess_bytes(&mut self) -> usize {
            self.2
        }

        fn weight_bytes(&self, id: CallId) -> usize {
            id.0.try_into().unwrap_or(0)
        }

        fn match_new(
            &mut self,
            _: &mut dyn Host,
            _: &MatchContext,
            _: &str,
        ) -> Result<Box<dyn MatchScript>, ScriptError> {
            Err(missing())
        }
    }

    fn registering(rpc: &[&str], before: &[&str], style: Style) -> Box<dyn Scripts + Send> {
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        let mut registered =
            Registered { rpc: ids(rpc), before: ids(before), ..Registered::default() };
        if style == Style::FULL {
            registered.block_all();
        }
        Box::new(Fake(registered, style, 0))
    }

    #[test]
    fn an_excess_in_one_language_is_given_back_by_calls_in_it_alone() {
        let language = |excess_bytes| -> Box<dyn Scripts + Send> {
            Box::new(Fake(Registered::default(), Style::SNAKE, excess_bytes))
        };
        let all = [("WebAssembly", language(5)), ("Lua", language(0)), ("JavaScript", language(7))];
        let mut languages = Languages::new(all.into());
        languages.waiting = [(5, 0), (6, 1), (7, 2)].map(|(id, of)| (CallId(id), of)).into();
        let weights = |of: &Languages| [5, 6, 7].map(|id| of.weight_bytes(CallId(id)));
        assert_eq!((languages.excess_bytes(), weights(&languages)), (7, [0, 0, 7]));
        languages.cancel(CallId(7));
        assert_eq!((languages.excess_bytes(), weights(&languages)), (5, [5, 0, 0]));
        languages.cancel(CallId(5));
        assert_eq!((languages.excess_bytes(), weights(&languages)), (0, [0, 0, 0]));
    }

    #[test]
    fn the_first_language_that_has_a_function_runs_it() {
        let languages = Languages::new(vec![
            ("Lua", registering(&["a", "both"], &["getaccount"], Style::SNAKE)),
            ("JavaScript", registering(&["b", "both"], &["updateaccount"], Style::FULL)),
            ("another", registering(&["b"], &[], Style::FULL)),
        ]);
        let of = |id| languages.of_call(&GuestCall::Rpc { id, payload: b"" });
        assert_eq!([of("a"), of("b"), of("B"), of("both"), of("none")], [0, 1, 1, 0, 0]);
        let form = |hook| languages.hook_form(hook).style;
        assert_eq!(form(Callee::Before("getaccount")), Style::SNAKE);
        assert_eq!(form(Callee::Before("updateaccount")), Style::FULL);
        assert_eq!(languages.registered().rpc, ["a", "both", "b"]);
        assert_eq!(languages.registered().blocking, ["rpc b", "before updateaccount"]);
        let [finding, second] = languages.registered().findings.as_slice() else { panic!() };
        assert_eq!(
            finding.text,
            "the RPC both is registered in Lua and in JavaScript: the one in Lua runs, as in Nakama"
        );
        let of_second =
            "the RPC b is registered in JavaScript and in another: the one in JavaScript runs";
        assert!(second.text.starts_with(of_second), "{}", second.text);
    }
}
