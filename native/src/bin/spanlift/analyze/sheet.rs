//! Tables written as Parquet files, a column at a time.
//!
//! A column is a function of the row, so that a table takes no memory beside the trace that it shows: no more than one
//! column of [`GROUP`] rows is held at once.

use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

/// Rows written at once.
const GROUP: usize = 1 << 17;

/// A column: what it is called, and what stands in each row.
pub(super) struct Column<'a> {
    name: &'static str,
    values: Values<'a>,
}

enum Values<'a> {
    Ints(Box<dyn Fn(usize) -> Option<i64> + 'a>),
    Floats(Box<dyn Fn(usize) -> Option<f64> + 'a>),
    Texts(Box<dyn Fn(usize) -> Option<ByteArray> + 'a>),
}

/// A column of whole numbers.
pub(super) fn ints<'a>(name: &'static str, of: impl Fn(usize) -> Option<i64> + 'a) -> Column<'a> {
    Column { name, values: Values::Ints(Box::new(of)) }
}

/// A column of floating-point numbers.
pub(super) fn floats<'a>(name: &'static str, of: impl Fn(usize) -> Option<f64> + 'a) -> Column<'a> {
    Column { name, values: Values::Floats(Box::new(of)) }
}

/// A column of text.
pub(super) fn texts<'a>(name: &'static str, of: impl Fn(usize) -> Option<ByteArray> + 'a) -> Column<'a> {
    Column { name, values: Values::Texts(Box::new(of)) }
}

/// Rows in columns; what is absent is null.
pub(super) struct Sheet<'a> {
    pub(super) columns: Vec<Column<'a>>,
    pub(super) n_rows: usize,
}

/// The Parquet file of sheets, which have the same columns, one below the other.
pub(super) fn parquet(sheets: &[Sheet<'_>]) -> Result<Vec<u8>, ParquetError> {
    let schema = schema(sheets.first().map_or(&[][..], |sheet| &sheet.columns))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(format!("spanlift {}", env!("CARGO_PKG_VERSION")));
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties.build()))?;
    for sheet in sheets {
        for from in (0..sheet.n_rows).step_by(GROUP) {
            let mut group = file.next_row_group()?;
            for column in &sheet.columns {
                write(&mut group, column, from..sheet.n_rows.min(from + GROUP))?;
            }
            group.close()?;
        }
    }
    file.into_inner()
}

fn schema(columns: &[Column<'_>]) -> Result<TypePtr, ParquetError> {
    let fields: Result<Vec<TypePtr>, ParquetError> = columns
        .iter()
        .map(|column| {
            let (physical, logical) = match column.values {
                Values::Ints(_) => (Physical::INT64, None),
                Values::Floats(_) => (Physical::DOUBLE, None),
                Values::Texts(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            };
            let field = Type::primitive_type_builder(column.name, physical)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(logical);
            field.build().map(Arc::new)
        })
        .collect();
    Ok(Arc::new(Type::group_type_builder("spanlift").with_fields(fields?).build()?))
}

fn write(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    column: &Column<'_>,
    rows: std::ops::Range<usize>,
) -> Result<(), ParquetError> {
    let Some(mut to) = group.next_column()? else {
        return Err(ParquetError::General(format!("no column for {}", column.name)));
    };
    match &column.values {
        Values::Ints(of) => {
            let (values, present) = split(rows, of);
            to.typed::<Int64Type>().write_batch(&values, Some(&present), None)?;
        }
        Values::Floats(of) => {
            let (values, present) = split(rows, of);
            to.typed::<DoubleType>().write_batch(&values, Some(&present), None)?;
        }
        Values::Texts(of) => {
            let (values, present) = split(rows, of);
            to.typed::<ByteArrayType>().write_batch(&values, Some(&present), None)?;
        }
    }
    to.close()
}

/// The values that are there, and for each row 1 where one is, else 0.
fn split<T>(rows: std::ops::Range<usize>, of: impl Fn(usize) -> Option<T>) -> (Vec<T>, Vec<i16>) {
    let mut values = Vec::with_capacity(rows.len());
    let mut present = Vec::with_capacity(rows.len());
    for row in rows {
        let value = of(row);
        present.push(i16::from(value.is_some()));
        values.extend(value);
    }
    (values, present)
}
