//! Texts of one line, as options and cells have them: changes, axes, sizes, schedules, devices, dimensions, search words.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use spanlift::advise::trace::RecordedChange;
use spanlift::advise::{Tensors, whatif::WhatIf};
use spanlift::explore::Holds;
use spanlift::hazard::StepId;
use spanlift::memory::{Device, Dtype};
use spanlift::op::{DeviceSpec, Dim, Name, dims};
use spanlift_native::sweep::Axis;
use spanlift_viewer::app::filter::Filter;

use crate::kit::{Random, fuzz, mutated};

const GOOD: &[&str] = &[
    "pin:*",
    "unpin:x*",
    "split:copy=3",
    "streams=4",
    "link=h200-pcie5",
    "machine=tutorial-ci",
    "h2d_bw=50",
    "h2d_bw*0.5",
    "d2h_bw*2",
    "copy_stream",
    "no_waits",
    "h2d_bw=10..60/6",
    "lat=0.5..8*2,as-is",
    "streams=1,2,4",
    "1000x4KB",
    "16MiB",
    "-",
    "w4:w5,w9.3:c11",
    "c4",
    "cuda:0",
    "mock:3",
    "cpu",
    "f32",
    "bf16",
    "Nx12",
    "...A()(2)",
    "NxNyKx1",
    "kind:h2d >1MB pinned:yes",
    "name~copy <20us stream:7",
];

const WORDS: &[&[u8]] = &[
    b"..",
    b",",
    b"*",
    b"=",
    b":",
    b"/",
    b"x",
    b"(",
    b")",
    b".",
    b"-",
    b">",
    b"1e400",
    b"-0",
    b"NaN",
    b"inf",
    b"99999999999999999999",
    b"0.0000001",
    "\u{feff}".as_bytes(),
    "µ".as_bytes(),
    "İ".as_bytes(),
];

/// What is read is written as a text that is read as the same again.
fn same_again<T: FromStr + Display + Debug + PartialEq>(text: &str) -> Result<bool, String>
where
    T::Err: Display,
{
    let read = match text.parse::<T>() {
        Err(why) if why.to_string().is_empty() => return Err("no words".to_owned()),
        Err(_) => return Ok(false),
        Ok(read) => read,
    };
    match read.to_string().parse::<T>() {
        Ok(again) if again == read => Ok(true),
        Ok(again) => Err(format!("{read:?} is written as {read}, which is {again:?}")),
        Err(why) => Err(format!("{read:?} is written as {read}: {why}")),
    }
}

fn judge(text: &str) -> Result<bool, String> {
    let again = [
        same_again::<WhatIf>(text)?,
        same_again::<Tensors>(text)?,
        same_again::<Holds>(text)?,
        same_again::<StepId>(text)?,
        same_again::<Device>(text)?,
        same_again::<Dtype>(text)?,
        same_again::<Name>(text)?,
        same_again::<Dim>(text)?,
    ];
    let dims = dims(text).map(|dims| dims.iter().map(ToString::to_string).collect::<String>());
    if let Ok(written) = &dims
        && self::dims(written).map(|d| d.len()) != self::dims(text).map(|d| d.len())
    {
        return Err(format!("written as {written:?}"));
    }
    let read = [
        text.parse::<RecordedChange>().is_ok(),
        text.parse::<DeviceSpec>().is_ok(),
        text.parse::<Axis>().is_ok_and(|axis| !axis.values.is_empty()),
        Filter::read(text).is_ok_and(|filter| !filter.is_empty()),
        dims.is_ok_and(|written| !written.is_empty()),
    ];
    Ok(again.into_iter().chain(read).any(|usable| usable))
}

#[test]
fn damaged_words_get_an_answer() {
    let corpus: Vec<Vec<u8>> = GOOD.iter().map(|text| text.as_bytes().to_vec()).collect();
    for text in GOOD {
        assert_eq!(judge(text), Ok(true), "{text}");
    }
    // Lines are not part of any of them.
    let make = |r: &mut Random| -> Vec<u8> {
        let bytes = mutated(r, &corpus, WORDS, 200);
        String::from_utf8_lossy(&bytes).replace('\n', " ").into_bytes()
    };
    fuzz("words", 3000, make, |bytes, _| judge(&String::from_utf8_lossy(bytes)));
}
