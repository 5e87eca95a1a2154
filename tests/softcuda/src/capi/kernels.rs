//! Modules and launches.

use std::ffi::{c_char, c_uint, c_void};

use cudarc::driver::sys::{CUfunction, CUmodule, CUstream};

use super::{In, Out, engine, exports};
use crate::code::Code;
use crate::kernel::Shape;

/// Copies the arguments at the call, as a launch does.
fn arguments(pointers: &Out<*mut c_void>, params: &[(usize, usize)]) -> Result<Vec<u8>, Code> {
    let mut bytes = vec![0; params.last().map_or(0, |(offset, size)| offset + size)];
    let pointers = In(pointers.0.cast_const());
    for (pointer, (offset, size)) in pointers.list::<*mut c_void>(params.len())?.iter().zip(params) {
        let argument = In(pointer.cast_const().cast::<u8>());
        bytes[*offset..offset + size].copy_from_slice(argument.list::<u8>(*size)?);
    }
    Ok(bytes)
}

exports! {
    fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) {
        module.writable()?;
        // Text that a zero ends; anything else has no `.version` and is refused.
        let text = In(image.0.cast::<c_char>());
        let text = text.text()?.to_str().map_err(|_| Code::INVALID_IMAGE)?;
        module.set_handle(engine().module_load(text)?)
    }

    fn cuModuleUnload(module: CUmodule) {
        engine().module_unload(module.number())
    }

    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) {
        function.writable()?;
        let name = name.text()?.to_str().map_err(|_| Code::NOT_FOUND)?;
        function.set_handle(engine().module_function(module.number(), name)?)
    }

    fn cuLaunchKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared: c_uint,
        stream: CUstream,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        // Arguments as one buffer are not modelled.
        if extra.number() != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        let args = arguments(&params, &engine().function_params(function.number())?)?;
        let shape = Shape { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared };
        engine().launch(function.number(), shape, args, stream.number())
    }
}
