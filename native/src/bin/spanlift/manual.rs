//! `spanlift man` and `spanlift completions`: what `man` and a shell want to know, made from the command line's definition.

use std::path::PathBuf;

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::End;
use crate::cli::Cli;
use crate::output;
use crate::say::{self, Fail, Out};

/// Print a guide or the manual page, or write the pages of all commands into a folder
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  spanlift man programs\n  spanlift man >spanlift.1\n  spanlift man -o man/man1\n\n\
    The pages are for `man`: put `man/man1` where it looks, or read one with `man -l spanlift.1`."
)]
pub(crate) struct ManArgs {
    /// Guide to print in place of the page
    #[arg(value_enum, value_name = "GUIDE", conflicts_with = "out")]
    guide: Option<Guide>,
    /// Folder to write a page for each command into, made when there is none
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// A text of `native/guide/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Guide {
    /// The text form of programs, and layouts
    Programs,
    /// Teaching and learning
    Teacher,
    /// A slow training job
    Traces,
    /// Operators over devices
    Operators,
    /// Moving data from Rust
    Transfers,
    /// What --format json prints, field by field
    Json,
}

impl Guide {
    fn text(self) -> &'static str {
        match self {
            Guide::Programs => include_str!("../../../guide/programs.md"),
            Guide::Teacher => include_str!("../../../guide/teacher.md"),
            Guide::Traces => include_str!("../../../guide/traces.md"),
            Guide::Operators => include_str!("../../../guide/operators.md"),
            Guide::Transfers => include_str!("../../../guide/transfers.md"),
            Guide::Json => include_str!("../../../guide/json.md"),
        }
    }
}

/// Print what a shell needs to complete commands and options
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  spanlift completions bash >spanlift.bash\n  spanlift completions zsh >_spanlift\n\n\
    For bash, source the file in ~/.bashrc; for zsh, put it in a folder of $fpath; for fish, in\n\
    ~/.config/fish/completions/spanlift.fish."
)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn man(args: &ManArgs, out: &mut Out) -> Result<End, Fail> {
    if let Some(guide) = args.guide {
        // Markdown reads well as it is, but for what keeps brackets from being links.
        out.text(&guide.text().replace("\\[", "[").replace("\\]", "]"));
        return Ok(End::Done);
    }
    // `help` has no page of its own: every page is one.
    let mut all = Cli::command().disable_help_subcommand(true);
    all.build();
    let Some(folder) = &args.out else {
        out.text(&page(&all)?);
        return Ok(End::Done);
    };
    output::folder(folder)?;
    let mut left = vec![all];
    while let Some(command) = left.pop() {
        let name = command.get_display_name().unwrap_or(command.get_name());
        let path = folder.join(format!("{name}.1"));
        output::write(&path, page(&command)?.as_bytes())?;
        out.line(&say::written(&path));
        left.extend(command.get_subcommands().cloned());
    }
    Ok(End::Done)
}

pub(crate) fn completions(args: &CompletionsArgs, out: &mut Out) -> Result<End, Fail> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "spanlift", &mut script);
    out.text(&String::from_utf8_lossy(&script));
    Ok(End::Done)
}

/// One manual page: the generator's sections, with the examples as they are typed.
fn page(command: &clap::Command) -> Result<String, Fail> {
    let man = Man::new(command.clone())
        .manual("spanlift")
        .source(format!("spanlift {}", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    let written = man
        .render_title(&mut text)
        .and_then(|()| man.render_name_section(&mut text))
        .and_then(|()| man.render_synopsis_section(&mut text))
        .and_then(|()| man.render_description_section(&mut text))
        .and_then(|()| man.render_options_section(&mut text))
        .and_then(|()| match command.has_subcommands() {
            true => man.render_subcommands_section(&mut text),
            false => Ok(()),
        })
        .and_then(|()| match command.get_after_help() {
            Some(help) => behind(&help.to_string()).to_writer(&mut text),
            None => Ok(()),
        });
    written.map_err(|e| Fail::at("the manual page", say::lower(&e)))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// What stands behind the options in the help: examples as they are, then notes.
fn behind(help: &str) -> Roff {
    let mut roff = Roff::new();
    let (mut section, mut is_filled) = ("", true);
    for line in help.lines() {
        // Examples are as they are typed: neither filled nor broken within a word.
        let is_typed = line.starts_with("  ");
        if is_typed == is_filled {
            roff.control(if is_typed { "nf" } else { "fi" }, []);
            is_filled = !is_typed;
        }
        if matches!(line, "Example:" | "Examples:") {
            section = "EXAMPLES";
            roff.control("SH", [section]);
        } else if line.trim().is_empty() {
            roff.control("PP", []);
        } else {
            if !is_typed && section != "NOTES" {
                section = "NOTES";
                roff.control("SH", [section]);
            }
            roff.text([roman(line)]);
        }
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_stay_on_their_lines_and_notes_flow() {
        let found =
            behind("Example:\n  spanlift check 'a.b'\n  # a-b\n\nEnds with 0\nor 1.\n\nMore.").to_roff();
        let at = |part: &str| found.find(part).unwrap_or_else(|| panic!("{part:?} in {found}"));
        let places = [
            at(".SH EXAMPLES"),
            at("spanlift check"),
            at("# a"),
            at(".SH NOTES"),
            at("Ends with 0"),
            at("More."),
        ];
        assert!(places.is_sorted(), "{found}");
        let typed = &found[at(".nf")..at(".fi")];
        assert!(
            typed.contains("spanlift check") && typed.contains("# a") && !typed.contains("Ends"),
            "{found}"
        );
        for once in [".nf", ".fi", ".SH NOTES"] {
            assert_eq!(found.matches(once).count(), 1, "{once} in {found}");
        }
    }
}
