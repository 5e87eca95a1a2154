class Columns {
__destroy_into_raw() {
const ptr = this.__wbg_ptr;
this.__wbg_ptr = 0;
ColumnsFinalization.unregister(this);
return ptr;
}
free() {
const ptr = this.__destroy_into_raw();
wasm.__wbg_columns_free(ptr, 0);
}
feed(piece) {
const ptr0 = passArray8ToWasm0(piece, wasm.__wbindgen_malloc);
const len0 = WASM_VECTOR_LEN;
const ret = wasm.columns_feed(this.__wbg_ptr, ptr0, len0);
if (ret[1]) {
throw takeFromExternrefTable0(ret[0]);
}
}
finish() {
const ret = wasm.columns_finish(this.__wbg_ptr);
if (ret[3]) {
throw takeFromExternrefTable0(ret[2]);
}
let v1;
if (ret[0] !== 0) {
v1 = getArrayU8FromWasm0(ret[0], ret[1]).slice();
wasm.__wbindgen_free(ret[0], ret[1] * 1, 1);
}
return v1;
}
constructor(leaves) {
const ret = wasm.columns_new(leaves);
this.__wbg_ptr = ret;
ColumnsFinalization.register(this, this.__wbg_ptr, this);
return this;
}
}
if (Symbol.dispose) Columns.prototype[Symbol.dispose] = Columns.prototype.free;
class View {
static __wrap(ptr) {
const obj = Object.create(View.prototype);
obj.__wbg_ptr = ptr;
ViewFinalization.register(obj, obj.__wbg_ptr, obj);
return obj;
}
__destroy_into_raw() {
const ptr = this.__wbg_ptr;
this.__wbg_ptr = 0;
ViewFinalization.unregister(this);
return ptr;
}
free() {
const ptr = this.__destroy_into_raw();
wasm.__wbg_view_free(ptr, 0);
}
add(name, bytes) {
let ptr0, len0, ptr1, len1;
try {
ptr0 = passStringToWasm0(name, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
len0 = WASM_VECTOR_LEN;
ptr1 = passArray8ToWasm0(bytes, wasm.__wbindgen_malloc);
len1 = WASM_VECTOR_LEN;
} catch (e) {
if (ptr1) { wasm.__wbindgen_free(ptr1, len1 * 1, 1); }
if (ptr0) { wasm.__wbindgen_free(ptr0, len0 * 1, 1); }
throw e;
}
const ret = wasm.view_add(this.__wbg_ptr, ptr0, len0, ptr1, len1);
if (ret[1]) {
throw takeFromExternrefTable0(ret[0]);
}
}
alone() {
wasm.view_alone(this.__wbg_ptr);
}
block(item) {
const ret = wasm.view_block(this.__wbg_ptr, item);
var v1 = getArrayU8FromWasm0(ret[0], ret[1]).slice();
wasm.__wbindgen_free(ret[0], ret[1] * 1, 1);
return v1;
}
changed() {
const ret = wasm.view_changed(this.__wbg_ptr);
var v1 = getArrayU8FromWasm0(ret[0], ret[1]).slice();
wasm.__wbindgen_free(ret[0], ret[1] * 1, 1);
return v1;
}
choose(from, to, first, last) {
wasm.view_choose(this.__wbg_ptr, from, to, isLikeNone(first) ? Number.MAX_SAFE_INTEGER : (first) >>> 0, isLikeNone(last) ? Number.MAX_SAFE_INTEGER : (last) >>> 0);
}
code(language) {
const ret = wasm.view_code(this.__wbg_ptr, language);
let v1;
if (ret[0] !== 0) {
v1 = getStringFromWasm0(ret[0], ret[1]);
wasm.__wbindgen_free(ret[0], ret[1] * 1, 1);
}
return v1;
}
compared(other) {
_assertClass(other, View);
const ret = wasm.view_compared(this.__wbg_ptr, other.__wbg_ptr);
let v1;
if (ret[0] !== 0) {
v1 = getStringFromWasm0(ret[0], ret[1]);
wasm.__wbindgen_free(ret[0], ret[1] * 1, 1);
}
return v1;
}
csv() {
let deferred1_0;
let deferred1_1;
try {
const ret = wasm.view_csv(this.__wbg_ptr);
deferred1_0 = ret[0];
deferred1_1 = ret[1];
return getStringFromWasm0(ret[0], ret[1]);
} finally {
wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
}
}
dark(dark) {
wasm.view_dark(this.__wbg_ptr, isLikeNone(dark) ? 0xFFFFFF : dark ? 1 : 0);
}
edit(source) {
const ptr0 = passStringToWasm0(source, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
const len0 = WASM_VECTOR_LEN;
const ret = wasm.view_edit(this.__wbg_ptr, ptr0, len0);
if (ret[1]) {
throw takeFromExternrefTable0(ret[0]);
}
}
find(wanted, words) {
let ptr0, len0, ptr1, len1;
try {
ptr0 = passArray8ToWasm0(wanted, wasm.__wbindgen_malloc);
len0 = WASM_VECTOR_LEN;
ptr1 = passStringToWasm0(words, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
len1 = WASM_VECTOR_LEN;
} catch (e) {
if (ptr1) { wasm.__wbindgen_free(ptr1, len1 * 1, 1); }
if (ptr0) { wasm.__wbindgen_free(ptr0, len0 * 1, 1); }
throw e;
}
const ret = wasm.view_find(this.__wbg_ptr, ptr0, len0, ptr1, len1);
if (ret[1]) {
throw takeFromExternrefTable0(ret[0]);
}
}
follow(from, to) {
wasm.view_follow(this.__wbg_ptr, from, to);
}
give(slice, bytes) {
const val2 = +slice;
const ptr0 = passArray8ToWasm0(bytes, wasm.__wbindgen_malloc);
const len0 = WASM_VECTOR_LEN;
wasm.view_give(this.__wbg_ptr, val2, ptr0, len0);
}
go(at) {
wasm.view_go(this.__wbg_ptr, at);
}
go_wall(ns, is_near) {
wasm.view_go_wall(this.__wbg_ptr, ns, is_near);
}
group(by) {
const ptr0 = passStringToWasm0(by, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
const len0 = WASM_VECTOR_LEN;
wasm.view_group(this.__wbg_ptr, ptr0, len0);
}
has_pageable() {
const ret = wasm.view_has_pageable(this.__wbg_ptr);
return ret !== 0;
}
item() {
const ret = wasm.view_item(this.__wbg_ptr);
return ret >>> 0;
}
key(key, shift) {
const val2 = +shift;
const ptr0 = passStringToWasm0(key, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
const len0 = WASM_VECTOR_LEN;
wasm.view_key(this.__wbg_ptr, ptr0, len0, val2);
}
labels() {
let deferred1_0;
let deferred1_1;
try {
const ret = wasm.view_labels(this.__wbg_ptr);
deferred1_0 = ret[0];
deferred1_1 = ret[1];
return getStringFromWasm0(ret[0], ret[1]);
} finally {
wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
}
}
level(other) {
_assertClass(other, View);
const ret = wasm.view_level(this.__wbg_ptr, other.__wbg_ptr);
return ret !== 0;
}
look_at(bytes, chosen) {
let ptr0, len0, ptr1, len1;
try {
ptr0 = passStringToWasm0(bytes, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
len0 = WASM_VECTOR_LEN;
ptr1 = passStringToWasm0(chosen, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
len1 = WASM_VECTOR_LEN;
} catch (e) {
if (ptr1) { wasm.__wbindgen_free(ptr1, len1 * 1, 1); }
if (ptr0) { wasm.__wbindgen_free(ptr0, len0 * 1, 1); }
throw e;
}
wasm.view_look_at(this.__wbg_ptr, ptr0, len0, ptr1, len1);
}
look_back() {
wasm.view_look_back(this.__wbg_ptr);
}
moment(moment, device) {
wasm.view_moment(this.__wbg_ptr, moment, isLikeNone(device) ? Number.MAX_SAFE_INTEGER : (device) >>> 0);
}
most_streams() {
const ret = wasm.view_most_streams(this.__wbg_ptr);
return ret >>> 0;
}
names() {
let deferred1_0;
let deferred1_1;
try {
const ret = wasm.view_names(this.__wbg_ptr);
deferred1_0 = ret[0];
deferred1_1 = ret[1];
return getStringFromWasm0(ret[0], ret[1]);
} finally {
wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
}
}
open(item) {
wasm.view_open(this.__wbg_ptr, item);
}
paint_on(context, dark, width) {
const ret = wasm.view_paint_on(this.__wbg_ptr, context, dark, !isLikeNone(width), isLikeNone(width) ? 0 : width);
var v1 = getArrayF64FromWasm0(ret[0], ret[1]).slice();
wasm.__wbindgen_free(ret[0], ret[1] * 8, 8);
return v1;
}
reach(from, to) {
wasm.view_reach(this.__wbg_ptr, from, to);
}
replace(block) {
const ptr0 = passArray8ToWasm0(block, wasm.__wbindgen_malloc);
const len0 = WASM_VECTOR_LEN;
const ret = wasm.view_replace(this.__wbg_ptr, ptr0, len0);
if (ret[1]) {
throw takeFromExternrefTable0(ret[0]);
}
}
row_at(y) {
const ret = wasm.view_row_at(this.__wbg_ptr, !isLikeNone(y), isLikeNone(y) ? 0 : y);
return ret === Number.MAX_SAFE_INTEGER ? undefined : ret;
}
scroll(top) {
wasm.view_scroll(this.__wbg_ptr, top);
}
select(slice, command) {
wasm.view_select(this.__wbg_ptr, isLikeNone(slice) ? Number.MAX_SAFE_INTEGER : (slice) >>> 0, isLikeNone(command) ? Number.MAX_SAFE_INTEGER : (command) >>> 0);
}
shift(row, by) {
wasm.view_shift(this.__wbg_ptr, row, by);
}
show(from, to) {
wasm.view_show(this.__wbg_ptr, from, to);
}
skeleton() {
const ret = wasm.view_skeleton(this.__wbg_ptr);
if (ret[1]) {
throw takeFromExternrefTable0(ret[0]);
}
}
source() {
const ret = wasm.view_source(this.__wbg_ptr);
let v1;
if (ret[0] !== 0) {
v1 = getStringFromWasm0(ret[0], ret[1]);
wasm.__wbindgen_free(ret[0], ret[1] * 1, 1);
}
return v1;
}
tell() {
wasm.view_tell(this.__wbg_ptr);
}
times() {
const ret = wasm.view_times(this.__wbg_ptr);
var v1 = getArrayF64FromWasm0(ret[0], ret[1]).slice();
wasm.__wbindgen_free(ret[0], ret[1] * 8, 8);
return v1;
}
told() {
let deferred1_0;
let deferred1_1;
try {
const ret = wasm.view_told(this.__wbg_ptr);
deferred1_0 = ret[0];
deferred1_1 = ret[1];
return getStringFromWasm0(ret[0], ret[1]);
} finally {
wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
}
}
wall() {
const ret = wasm.view_wall(this.__wbg_ptr);
return ret[0] === 0 ? undefined : ret[1];
}
what_if(changes) {
let deferred3_0;
let deferred3_1;
try {
const ptr0 = passStringToWasm0(changes, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
const len0 = WASM_VECTOR_LEN;
const ret = wasm.view_what_if(this.__wbg_ptr, ptr0, len0);
var ptr2 = ret[0];
var len2 = ret[1];
if (ret[3]) {
ptr2 = 0; len2 = 0;
throw takeFromExternrefTable0(ret[2]);
}
deferred3_0 = ptr2;
deferred3_1 = len2;
return getStringFromWasm0(ptr2, len2);
} finally {
wasm.__wbindgen_free(deferred3_0, deferred3_1, 1);
}
}
widen(least) {
const ret = wasm.view_widen(this.__wbg_ptr, least);
return ret[0] === 0 ? undefined : ret[1];
}
}
if (Symbol.dispose) View.prototype[Symbol.dispose] = View.prototype.free;
function colors(dark) {
let deferred1_0;
let deferred1_1;
try {
const ret = wasm.colors(dark);
deferred1_0 = ret[0];
deferred1_1 = ret[1];
return getStringFromWasm0(ret[0], ret[1]);
} finally {
wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
}
}
function machines() {
let deferred1_0;
let deferred1_1;
try {
const ret = wasm.machines();
deferred1_0 = ret[0];
deferred1_1 = ret[1];
return getStringFromWasm0(ret[0], ret[1]);
} finally {
wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
}
}
function mount(place, block, alone) {
const val2 = +alone;
const ptr0 = passArray8ToWasm0(block, wasm.__wbindgen_malloc);
const len0 = WASM_VECTOR_LEN;
const ret = wasm.mount(place, ptr0, len0, val2);
if (ret[2]) {
throw takeFromExternrefTable0(ret[1]);
}
return View.__wrap(ret[0]);
}
function version() {
let deferred1_0;
let deferred1_1;
try {
const ret = wasm.version();
deferred1_0 = ret[0];
deferred1_1 = ret[1];
return getStringFromWasm0(ret[0], ret[1]);
} finally {
wasm.__wbindgen_free(deferred1_0, deferred1_1, 1);
}
}
function __wbg_get_imports() {
const import0 = {
second,
__proto__: null,
_0: function(arg0) {
return arg0 === undefined;
},
_1: function(arg0, arg1) {
const obj = arg1;
const ret = typeof(obj) === 'string' ? obj : undefined;
var ptr1 = isLikeNone(ret) ? 0 : passStringToWasm0(ret, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
var len1 = WASM_VECTOR_LEN;
getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 1, len1, true);
getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 0, ptr1, true);
},
_2: function(arg0, arg1) {
throw new Error(getStringFromWasm0(arg0, arg1));
},
_3: function(arg0) {
arg0._wbg_cb_unref();
},
_4: function() { return handleError(function (arg0, arg1, arg2, arg3, arg4) {
arg0.addEventListener(getStringFromWasm0(arg1, arg2), arg3, arg4);
}, arguments); },
_5: function() { return handleError(function (arg0, arg1, arg2) {
arg0.add(getStringFromWasm0(arg1, arg2));
}, arguments); },
_6: function(arg0) {
return arg0.altKey;
},
_7: function() { return handleError(function (arg0, arg1) {
return arg0.appendChild(arg1);
}, arguments); },
_8: function() { return handleError(function (arg0, arg1, arg2, arg3, arg4, arg5) {
arg0.arcTo(arg1, arg2, arg3, arg4, arg5);
}, arguments); },
_9: function(arg0) {
arg0.beginPath();
},
_10: function(arg0) {
return arg0.button;
},
_11: function(arg0) {
return arg0.children;
},
_12: function(arg0) {
return arg0.classList;
},
_13: function(arg0, arg1) {
const ret = arg1.className;
const ptr1 = passStringToWasm0(ret, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
const len1 = WASM_VECTOR_LEN;
getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 1, len1, true);
getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 0, ptr1, true);
},
_14: function(arg0) {
return arg0.clientHeight;
},
_15: function(arg0) {
return arg0.clientWidth;
},
_16: function(arg0) {
return arg0.clientX;
},
_17: function(arg0) {
return arg0.clientY;
},
_18: function(arg0) {
arg0.clip();
},
_19: function(arg0) {
arg0.closePath();
},
_20: function() { return handleError(function (arg0, arg1, arg2) {
const ret = arg0.closest(getStringFromWasm0(arg1, arg2));
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
}, arguments); },
_21: function() { return handleError(function (arg0, arg1, arg2) {
return arg0.createElement(getStringFromWasm0(arg1, arg2));
}, arguments); },
_22: function(arg0, arg1, arg2) {
return arg0.createTextNode(getStringFromWasm0(arg1, arg2));
},
_23: function(arg0) {
return arg0.ctrlKey;
},
_24: function(arg0) {
return arg0.ctrlKey;
},
_25: function(arg0) {
return arg0.deltaMode;
},
_26: function(arg0) {
return arg0.deltaX;
},
_27: function(arg0) {
return arg0.deltaY;
},
_28: function(arg0) {
return arg0.devicePixelRatio;
},
_29: function() { return handleError(function (arg0, arg1) {
return arg0.dispatchEvent(arg1);
}, arguments); },
_30: function(arg0, arg1, arg2, arg3, arg4) {
arg0.fillRect(arg1, arg2, arg3, arg4);
},
_31: function() { return handleError(function (arg0, arg1, arg2, arg3, arg4) {
arg0.fillText(getStringFromWasm0(arg1, arg2), arg3, arg4);
}, arguments); },
_32: function(arg0) {
arg0.fill();
},
_33: function(arg0) {
const ret = arg0.firstElementChild;
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
},
_34: function(arg0, arg1, arg2, arg3) {
const ret = arg1.getAttribute(getStringFromWasm0(arg2, arg3));
var ptr1 = isLikeNone(ret) ? 0 : passStringToWasm0(ret, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
var len1 = WASM_VECTOR_LEN;
getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 1, len1, true);
getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 0, ptr1, true);
},
_35: function(arg0) {
return arg0.getBoundingClientRect();
},
_36: function() { return handleError(function (arg0, arg1, arg2) {
const ret = arg0.getContext(getStringFromWasm0(arg1, arg2));
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
}, arguments); },
_37: function(arg0) {
return arg0.height;
},
_38: function(arg0) {
return arg0.hidden;
},
_39: function(arg0) {
let result;
try {
result = arg0 instanceof Element;
} catch (_) {
result = false;
}
return result;
},
_40: function(arg0) {
let result;
try {
result = arg0 instanceof HTMLSelectElement;
} catch (_) {
result = false;
}
return result;
},
_41: function(arg0) {
let result;
try {
result = arg0 instanceof Window;
} catch (_) {
result = false;
}
return result;
},
_42: function(arg0, arg1) {
const ret = arg0.item(arg1 >>> 0);
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
},
_43: function(arg0, arg1) {
const ret = arg1.key;
const ptr1 = passStringToWasm0(ret, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
const len1 = WASM_VECTOR_LEN;
getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 1, len1, true);
getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 0, ptr1, true);
},
_44: function(arg0) {
const ret = arg0.lastElementChild;
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
},
_45: function(arg0) {
return arg0.left;
},
_46: function(arg0) {
return arg0.length;
},
_47: function(arg0, arg1, arg2) {
arg0.lineTo(arg1, arg2);
},
_48: function() { return handleError(function (arg0, arg1, arg2) {
const ret = arg0.matchMedia(getStringFromWasm0(arg1, arg2));
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
}, arguments); },
_49: function(arg0) {
return arg0.matches;
},
_50: function() { return handleError(function (arg0, arg1, arg2) {
return arg0.matches(getStringFromWasm0(arg1, arg2));
}, arguments); },
_51: function(arg0) {
return arg0.metaKey;
},
_52: function(arg0, arg1, arg2) {
arg0.moveTo(arg1, arg2);
},
_53: function() { return handleError(function (arg0) {
return new ResizeObserver(arg0);
}, arguments); },
_54: function() {
return new Object();
},
_55: function() { return handleError(function (arg0, arg1) {
return new Event(getStringFromWasm0(arg0, arg1));
}, arguments); },
_56: function(arg0) {
const ret = arg0.nextElementSibling;
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
},
_57: function(arg0, arg1) {
arg0.observe(arg1);
},
_58: function(arg0) {
return arg0.offsetHeight;
},
_59: function(arg0) {
return arg0.offsetWidth;
},
_60: function(arg0) {
const ret = arg0.ownerDocument;
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
},
_61: function(arg0) {
return arg0.pointerId;
},
_62: function(arg0, arg1) {
const ret = arg1.pointerType;
const ptr1 = passStringToWasm0(ret, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
const len1 = WASM_VECTOR_LEN;
getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 1, len1, true);
getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 0, ptr1, true);
},
_63: function(arg0) {
arg0.preventDefault();
},
_64: function() { return handleError(function (arg0, arg1, arg2) {
const ret = arg0.querySelector(getStringFromWasm0(arg1, arg2));
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
}, arguments); },
_65: function(arg0, arg1, arg2, arg3, arg4) {
arg0.rect(arg1, arg2, arg3, arg4);
},
_66: function() { return handleError(function (arg0, arg1, arg2) {
arg0.removeAttribute(getStringFromWasm0(arg1, arg2));
}, arguments); },
_67: function() { return handleError(function (arg0, arg1, arg2) {
arg0.remove(getStringFromWasm0(arg1, arg2));
}, arguments); },
_68: function(arg0) {
arg0.remove();
},
_69: function() { return handleError(function (arg0, arg1) {
return arg0.requestAnimationFrame(arg1);
}, arguments); },
_70: function(arg0) {
arg0.restore();
},
_71: function(arg0) {
arg0.save();
},
_72: function(arg0) {
return arg0.scrollTop;
},
_73: function() { return handleError(function () {
second();
}, arguments); },
_74: function(arg0) {
return arg0.selectedIndex;
},
_75: function() { return handleError(function (arg0, arg1, arg2, arg3, arg4) {
arg0.setAttribute(getStringFromWasm0(arg1, arg2), getStringFromWasm0(arg3, arg4));
}, arguments); },
_76: function() { return handleError(function (arg0, arg1) {
arg0.setPointerCapture(arg1);
}, arguments); },
_77: function() { return handleError(function (arg0, arg1, arg2, arg3, arg4) {
arg0.setProperty(getStringFromWasm0(arg1, arg2), getStringFromWasm0(arg3, arg4));
}, arguments); },
_78: function() { return handleError(function (arg0, arg1, arg2, arg3, arg4, arg5, arg6) {
arg0.setTransform(arg1, arg2, arg3, arg4, arg5, arg6);
}, arguments); },
_79: function(arg0, arg1, arg2) {
arg0.className = getStringFromWasm0(arg1, arg2);
},
_80: function(arg0, arg1, arg2) {
arg0.fillStyle = getStringFromWasm0(arg1, arg2);
},
_81: function(arg0, arg1) {
arg0.fillStyle = arg1;
},
_82: function(arg0, arg1, arg2) {
arg0.font = getStringFromWasm0(arg1, arg2);
},
_83: function(arg0, arg1) {
arg0.height = arg1 >>> 0;
},
_84: function(arg0, arg1) {
arg0.hidden = arg1 !== 0;
},
_85: function(arg0, arg1) {
arg0.lineWidth = arg1;
},
_86: function(arg0, arg1) {
arg0.passive = arg1 !== 0;
},
_87: function(arg0, arg1) {
arg0.scrollTop = arg1;
},
_88: function(arg0, arg1) {
arg0.selectedIndex = arg1;
},
_89: function(arg0, arg1) {
arg0.strokeStyle = arg1;
},
_90: function(arg0, arg1, arg2) {
arg0.textAlign = getStringFromWasm0(arg1, arg2);
},
_91: function(arg0, arg1, arg2) {
arg0.textBaseline = getStringFromWasm0(arg1, arg2);
},
_92: function(arg0, arg1, arg2) {
arg0.textContent = arg1 === 0 ? undefined : getStringFromWasm0(arg1, arg2);
},
_93: function(arg0, arg1) {
arg0.width = arg1 >>> 0;
},
_94: function(arg0) {
return arg0.shiftKey;
},
_95: function(arg0) {
return arg0.shiftKey;
},
_96: function() {
const ret = typeof globalThis === 'undefined' ? undefined : globalThis;
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
},
_97: function() {
const ret = typeof global === 'undefined' ? undefined : global;
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
},
_98: function() {
const ret = typeof self === 'undefined' ? undefined : self;
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
},
_99: function() {
const ret = typeof window === 'undefined' ? undefined : window;
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
},
_100: function(arg0, arg1, arg2, arg3, arg4) {
arg0.strokeRect(arg1, arg2, arg3, arg4);
},
_101: function(arg0) {
arg0.stroke();
},
_102: function(arg0) {
return arg0.style;
},
_103: function(arg0) {
const ret = arg0.target;
return isLikeNone(ret) ? 0 : addToExternrefTable0(ret);
},
_104: function(arg0, arg1) {
const ret = arg1.textContent;
var ptr1 = isLikeNone(ret) ? 0 : passStringToWasm0(ret, wasm.__wbindgen_malloc, wasm.__wbindgen_realloc);
var len1 = WASM_VECTOR_LEN;
getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 1, len1, true);
getDataViewMemory0().setInt32((arg0 >>> 0) + 4 * 0, ptr1, true);
},
_105: function() { return handleError(function (arg0, arg1, arg2, arg3) {
return arg0.toggle(getStringFromWasm0(arg1, arg2), arg3 !== 0);
}, arguments); },
_106: function(arg0) {
return arg0.top;
},
_107: function(arg0) {
return arg0.width;
},
_108: function(arg0, arg1) {
return makeMutClosure(arg0, arg1, _109);
},
_110: function(arg0, arg1) {
return makeMutClosure(arg0, arg1, _111);
},
_112: function(arg0, arg1) {
return getStringFromWasm0(arg0, arg1);
},
__wbindgen_init_externref_table: function() {
const table = wasm.__wbindgen_externrefs;
table.set(0, undefined);
table.set(1024, undefined);
table.set(1025, null);
table.set(1026, true);
table.set(1027, false);
},
};
return {
__proto__: null,
"./viewer_bg.js": import0,
};
}
function _111(arg0, arg1) {
wasm._111(arg0, arg1);
}
function _109(arg0, arg1, arg2) {
wasm._109(arg0, arg1, arg2);
}
const ColumnsFinalization = (typeof FinalizationRegistry === 'undefined')
? { register: () => {}, unregister: () => {} }
: new FinalizationRegistry(ptr => wasm.__wbg_columns_free(ptr, 1));
const ViewFinalization = (typeof FinalizationRegistry === 'undefined')
? { register: () => {}, unregister: () => {} }
: new FinalizationRegistry(ptr => wasm.__wbg_view_free(ptr, 1));
function addToExternrefTable0(obj) {
const idx = wasm.__externref_table_alloc();
wasm.__wbindgen_externrefs.set(idx, obj);
return idx;
}
function _assertClass(instance, klass) {
if (!(instance instanceof klass)) {
throw new Error(`expected instance of ${klass.name}`);
}
}
const CLOSURE_DTORS = (typeof FinalizationRegistry === 'undefined')
? { register: () => {}, unregister: () => {} }
: new FinalizationRegistry(state => wasm.__wbindgen_destroy_closure(state.a, state.b));
function getArrayF64FromWasm0(ptr, len) {
ptr = ptr >>> 0;
return getFloat64ArrayMemory0().subarray(ptr / 8, ptr / 8 + len);
}
function getArrayU8FromWasm0(ptr, len) {
ptr = ptr >>> 0;
return getUint8ArrayMemory0().subarray(ptr / 1, ptr / 1 + len);
}
let cachedDataViewMemory0 = null;
function getDataViewMemory0() {
if (cachedDataViewMemory0 === null || cachedDataViewMemory0.buffer.detached === true || (cachedDataViewMemory0.buffer.detached === undefined && cachedDataViewMemory0.buffer !== wasm.memory.buffer)) {
cachedDataViewMemory0 = new DataView(wasm.memory.buffer);
}
return cachedDataViewMemory0;
}
let cachedFloat64ArrayMemory0 = null;
function getFloat64ArrayMemory0() {
if (cachedFloat64ArrayMemory0 === null || cachedFloat64ArrayMemory0.byteLength === 0) {
cachedFloat64ArrayMemory0 = new Float64Array(wasm.memory.buffer);
}
return cachedFloat64ArrayMemory0;
}
function getStringFromWasm0(ptr, len) {
ptr = ptr >>> 0;
return decodeText(getUint8ArrayMemory0().subarray(ptr, ptr + len));
}
let cachedUint8ArrayMemory0 = null;
function getUint8ArrayMemory0() {
if (cachedUint8ArrayMemory0 === null || cachedUint8ArrayMemory0.byteLength === 0) {
cachedUint8ArrayMemory0 = new Uint8Array(wasm.memory.buffer);
}
return cachedUint8ArrayMemory0;
}
function handleError(f, args) {
try {
return f.apply(this, args);
} catch (e) {
const idx = addToExternrefTable0(e);
wasm.__wbindgen_exn_store(idx);
}
}
function isLikeNone(x) {
return x === undefined || x === null;
}
function makeMutClosure(arg0, arg1, f) {
const state = { a: arg0, b: arg1, cnt: 1 };
const real = (...args) => {
state.cnt++;
const a = state.a;
state.a = 0;
try {
return f(a, state.b, ...args);
} finally {
state.a = a;
real._wbg_cb_unref();
}
};
real._wbg_cb_unref = () => {
if (--state.cnt === 0) {
wasm.__wbindgen_destroy_closure(state.a, state.b);
state.a = 0;
CLOSURE_DTORS.unregister(state);
}
};
CLOSURE_DTORS.register(real, state, state);
return real;
}
function passArray8ToWasm0(arg, malloc) {
const ptr = malloc(arg.length * 1, 1) >>> 0;
getUint8ArrayMemory0().set(arg, ptr / 1);
WASM_VECTOR_LEN = arg.length;
return ptr;
}
function passStringToWasm0(arg, malloc, realloc) {
if (realloc === undefined) {
const buf = cachedTextEncoder.encode(arg);
const ptr = malloc(buf.length, 1) >>> 0;
getUint8ArrayMemory0().subarray(ptr, ptr + buf.length).set(buf);
WASM_VECTOR_LEN = buf.length;
return ptr;
}
let len = arg.length;
let ptr = malloc(len, 1) >>> 0;
const mem = getUint8ArrayMemory0();
let offset = 0;
for (; offset < len; offset++) {
const code = arg.charCodeAt(offset);
if (code > 0x7F) break;
mem[ptr + offset] = code;
}
if (offset !== len) {
if (offset !== 0) {
arg = arg.slice(offset);
}
ptr = realloc(ptr, len, len = offset + arg.length * 3, 1) >>> 0;
const view = getUint8ArrayMemory0().subarray(ptr + offset, ptr + len);
const ret = cachedTextEncoder.encodeInto(arg, view);
offset += ret.written;
ptr = realloc(ptr, len, offset, 1) >>> 0;
}
WASM_VECTOR_LEN = offset;
return ptr;
}
function takeFromExternrefTable0(idx) {
const value = wasm.__wbindgen_externrefs.get(idx);
wasm.__externref_table_dealloc(idx);
return value;
}
let cachedTextDecoder = new TextDecoder('utf-8', { ignoreBOM: true });
cachedTextDecoder.decode();
const MAX_SAFARI_DECODE_BYTES = 2146435072;
let numBytesDecoded = 0;
function decodeText(bytes) {
numBytesDecoded += bytes.length;
if (numBytesDecoded >= MAX_SAFARI_DECODE_BYTES) {
cachedTextDecoder = new TextDecoder('utf-8', { ignoreBOM: true });
cachedTextDecoder.decode();
numBytesDecoded = bytes.length;
}
return cachedTextDecoder.decode(bytes);
}
const cachedTextEncoder = new TextEncoder();
if (!('encodeInto' in cachedTextEncoder)) {
cachedTextEncoder.encodeInto = function (arg, view) {
const buf = cachedTextEncoder.encode(arg);
view.set(buf);
return {
read: arg.length,
written: buf.length
};
};
}
let WASM_VECTOR_LEN = 0;
let wasmModule, wasmInstance, wasm;
function __wbg_finalize_init(instance, module) {
wasmInstance = instance;
wasm = instance.exports;
wasmModule = module;
cachedDataViewMemory0 = null;
cachedFloat64ArrayMemory0 = null;
cachedUint8ArrayMemory0 = null;
wasm.__wbindgen_start();
return wasm;
}
