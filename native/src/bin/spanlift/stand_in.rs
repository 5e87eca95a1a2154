//! Stands in for rooms that are not there yet; goes when they are.

pub(crate) mod hazard {
    //! As agreed for `spanlift::hazard`.
    use spanlift::Program;
    use spanlift::program::{BufferId, Problem, Problems};

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Mode {
        Contract,
        Typical,
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Certainty {
        Must,
        May,
    }

    #[derive(Debug, Clone)]
    pub(crate) struct Hazard {
        pub(crate) buffer: BufferId,
        pub(crate) certainty: Certainty,
    }

    #[derive(Debug, Clone)]
    pub(crate) struct Report {
        pub(crate) hazards: Vec<Hazard>,
    }

    impl Report {
        pub(crate) fn to_json(&self, _program: &Program) -> String {
            format!("{{\"verdict\": \"error\", \"hazards\": [], \"errors\": [\"{}\"]}}", self.hazards.len())
        }
    }

    pub(crate) fn sentence(program: &Program, hazard: &Hazard) -> String {
        program.names().buffer(hazard.buffer).to_owned()
    }

    pub(crate) fn check(program: &Program, mode: Mode) -> Result<Report, Problems> {
        program.check()?;
        let message = format!(
            "the hazard checker is not part of this build (mode {mode:?}, {:?}, {:?})",
            Certainty::Must,
            Certainty::May
        );
        Err(Problems(vec![Problem { index: 0, line: None, message }]))
    }
}
