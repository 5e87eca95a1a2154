//! Device memory, pools, pinned and registered memory, what pointers are.

use std::ffi::{c_int, c_uint, c_void};

use cudarc::driver::sys::{
    CUdevice, CUdeviceptr, CUmemAccessDesc, CUmemPool_attribute, CUmemPoolProps, CUmemoryPool,
    CUpointer_attribute, CUstream,
};

use super::{In, Out, engine, exports};
use crate::code::Code;
use crate::engine::PointerFacts;

/// `CUmemAccessDesc` with integers for its enumerations.
#[derive(Clone, Copy)]
#[repr(C)]
struct AccessDesc {
    location_type: u32,
    location: c_int,
    flags: u32,
}

const _: () = assert!(size_of::<AccessDesc>() == size_of::<CUmemAccessDesc>());

/// `CUmemPoolProps` with integers for its enumerations: where security attributes and what is reserved stand, zeros.
#[derive(Clone, Copy)]
#[repr(C)]
struct PoolProps {
    kind: u32,
    handles: u32,
    location_type: u32,
    location: c_int,
    security: usize,
    rest: [u64; 8],
}

const _: () = assert!(size_of::<PoolProps>() == size_of::<CUmemPoolProps>());

/// The release threshold and the counters are 64 bits wide, the reuse flags are ints.
fn is_wide(attribute: u32) -> bool {
    attribute >= 4
}

/// Writes one attribute of a known pointer.
fn set_fact(out: &Out<c_void>, attribute: u32, pointer: u64, facts: PointerFacts) -> Result<(), Code> {
    match attribute {
        1 => out.set_as(facts.context),
        2 => out.set_as(facts.memory_type),
        3 => out.set_as(pointer),
        4 if facts.memory_type == 1 => out.set_as(pointer),
        4 => Err(Code::INVALID_VALUE),
        8 => out.set_as(0u32),
        9 => out.set_as(facts.ordinal),
        11 => out.set_as(facts.start),
        12 => out.set_as(facts.len),
        13 => out.set_as(1u32),
        0 | 21.. => Err(Code::INVALID_VALUE),
        _ => Err(Code::NOT_SUPPORTED),
    }
}

/// Writes what an attribute is for a pointer that nobody knows: `cuPointerGetAttributes` succeeds for these.
fn set_nothing(out: &Out<c_void>, attribute: u32) -> Result<(), Code> {
    match attribute {
        1 | 3 | 4 | 11 | 12 => out.set_as(0u64),
        2 | 8 | 13 => out.set_as(0u32),
        9 => out.set_as(-2i32),
        0 | 21.. => Err(Code::INVALID_VALUE),
        _ => Err(Code::NOT_SUPPORTED),
    }
}

exports! {
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        free.writable()?;
        total.writable()?;
        let (free_bytes, total_bytes) = engine().memory_info()?;
        free.set(usize::try_from(free_bytes).map_err(|_| Code::UNKNOWN)?)?;
        total.set(usize::try_from(total_bytes).map_err(|_| Code::UNKNOWN)?)
    }

    fn cuMemAlloc_v2(pointer: *mut CUdeviceptr, len: usize) {
        pointer.writable()?;
        pointer.set(engine().alloc(len as u64)?)
    }

    fn cuMemFree_v2(pointer: CUdeviceptr) {
        engine().free(pointer)
    }

    fn cuMemAllocAsync(pointer: *mut CUdeviceptr, len: usize, stream: CUstream) {
        pointer.writable()?;
        pointer.set(engine().alloc_async("cuMemAllocAsync", len as u64, 0, stream.number())?)
    }

    fn cuMemAllocFromPoolAsync(pointer: *mut CUdeviceptr, len: usize, pool: CUmemoryPool, stream: CUstream) {
        pointer.writable()?;
        if pool.number() == 0 {
            return Err(Code::INVALID_VALUE);
        }
        pointer.set(engine().alloc_async("cuMemAllocFromPoolAsync", len as u64, pool.number(), stream.number())?)
    }

    fn cuMemFreeAsync(pointer: CUdeviceptr, stream: CUstream) {
        engine().free_async(pointer, stream.number())
    }

    fn cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, dev: CUdevice) {
        pool.writable()?;
        pool.set_handle(engine().default_pool("cuDeviceGetDefaultMemPool", dev)?)
    }

    fn cuDeviceGetMemPool(pool: *mut CUmemoryPool, dev: CUdevice) {
        pool.writable()?;
        pool.set_handle(engine().default_pool("cuDeviceGetMemPool", dev)?)
    }

    fn cuDeviceSetMemPool(dev: CUdevice, pool: CUmemoryPool) {
        engine().set_pool(dev, pool.number())
    }

    fn cuMemPoolCreate(pool: *mut CUmemoryPool, props: *const CUmemPoolProps) {
        pool.writable()?;
        let props = props.list::<PoolProps>(1)?[0];
        // Page-locked memory of a device, to be shared with nobody: the only kind there is here.
        if (props.kind, props.handles, props.location_type) != (1, 0, 1) || props.rest != [0; 8] {
            return Err(Code::INVALID_VALUE);
        }
        pool.set_handle(engine().create_pool(props.location)?)
    }

    fn cuMemPoolDestroy(pool: CUmemoryPool) {
        engine().destroy_pool(pool.number())
    }

    fn cuMemPoolTrimTo(pool: CUmemoryPool, keep: usize) {
        engine().trim_pool(pool.number(), keep as u64)
    }

    fn cuMemPoolGetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute, value: *mut c_void) {
        value.writable()?;
        let found = engine().pool_value(pool.number(), attribute)?;
        if is_wide(attribute) { value.set_as(found) } else { value.set_as(i32::from(found != 0)) }
    }

    fn cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute, value: *mut c_void) {
        let wanted = if is_wide(attribute) { value.get_as::<u64>()? } else { u64::from(value.get_as::<i32>()? != 0) };
        engine().set_pool_value(pool.number(), attribute, wanted)
    }

    fn cuMemPoolSetAccess(pool: CUmemoryPool, map: *const CUmemAccessDesc, count: usize) {
        let mut grants = Vec::new();
        for grant in grants_of(&map, count)? {
            // 1 is a device.
            if grant.location_type != 1 {
                return Err(Code::INVALID_VALUE);
            }
            grants.push((grant.location, grant.flags));
        }
        engine().set_pool_access(pool.number(), &grants)
    }

    fn cuMemHostAlloc(pointer: *mut *mut c_void, len: usize, flags: c_uint) {
        pointer.writable()?;
        pointer.set_handle(engine().host_alloc(len as u64, flags)?)
    }

    fn cuMemFreeHost(pointer: *mut c_void) {
        engine().host_free(pointer.number())
    }

    fn cuMemHostRegister_v2(pointer: *mut c_void, len: usize, flags: c_uint) {
        engine().host_register(pointer.address(), len as u64, flags)
    }

    fn cuMemHostUnregister(pointer: *mut c_void) {
        engine().host_unregister(pointer.number())
    }

    fn cuMemHostGetFlags(flags: *mut c_uint, pointer: *mut c_void) {
        flags.writable()?;
        flags.set(engine().host_flags(pointer.number())?)
    }

    fn cuMemHostGetDevicePointer_v2(device: *mut CUdeviceptr, pointer: *mut c_void, flags: c_uint) {
        device.writable()?;
        device.set(engine().host_device_pointer(pointer.number(), flags)?)
    }

    fn cuPointerGetAttribute(data: *mut c_void, attribute: CUpointer_attribute, pointer: CUdeviceptr) {
        data.writable()?;
        let facts = engine().pointer_facts("cuPointerGetAttribute", pointer)??;
        set_fact(&data, attribute, pointer, facts)
    }

    fn cuPointerGetAttributes(
        count: c_uint,
        attributes: *mut CUpointer_attribute,
        data: *mut *mut c_void,
        pointer: CUdeviceptr,
    ) {
        let facts = engine().pointer_facts("cuPointerGetAttributes", pointer)?;
        let count = count as usize;
        let attributes = In(attributes.0.cast_const());
        let data = In(data.0.cast_const());
        for (attribute, out) in attributes.list::<u32>(count)?.iter().zip(data.list::<*mut c_void>(count)?) {
            let out = Out(*out);
            match facts {
                Ok(facts) => set_fact(&out, *attribute, pointer, facts)?,
                Err(_) => set_nothing(&out, *attribute)?,
            }
        }
        Ok(())
    }
}

fn grants_of(map: &In<CUmemAccessDesc>, count: usize) -> Result<&[AccessDesc], Code> {
    map.list::<AccessDesc>(count)
}
