# Horovod 0.28.1 asks CMake for C++14, torch since 2.1 needs C++17. CMake appends the option of the
# asked standard last, behind CMAKE_CXX_FLAGS, so only the option itself can be changed.
# CMake (3.21 and later) reads this file by the environment variable CMAKE_TOOLCHAIN_FILE.

if(NOT DEFINED CMAKE_PROJECT_INCLUDE)
  # Read again after project(): the compiler's own modules overwrite the variables below.
  set(CMAKE_PROJECT_INCLUDE "${CMAKE_CURRENT_LIST_FILE}")
endif()
set(CMAKE_CXX14_STANDARD_COMPILE_OPTION "-std=c++17")
set(CMAKE_CXX14_EXTENSION_COMPILE_OPTION "-std=gnu++17")

# Horovod's sources use std::string, std::logic_error, int64_t and uint16_t (Gloo) without including
# their headers. Up to GCC 12 other headers of the standard library brought them along. The same may
# happen to the rest of this list. CXXFLAGS are added to these options; nvcc gets none of them.
set(CMAKE_CXX_FLAGS_INIT "")
foreach(header algorithm cstdint cstring functional limits memory stdexcept string)
  string(APPEND CMAKE_CXX_FLAGS_INIT " -include ${header}")
endforeach()

# The machine code of RelWithDebInfo, as Horovod sets it, without the debug information: that is a
# fifth of the compiler's time and nine tenths of the wheel.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O3 -DNDEBUG")

# From <prefix>/lib/pythonX.Y/site-packages/horovod/torch, or .../tensorflow, to <prefix>/lib and to
# the framework's libraries: searched before the folders of the environment that built the wheel, so
# that it works in others.
set(CMAKE_BUILD_RPATH "$ORIGIN/../../../..;$ORIGIN/../../torch/lib;$ORIGIN/../../tensorflow;$ORIGIN/../../tensorflow/python")

# GCC 14 refuses a class of Horovod's FlatBuffers that assigns to its own constants, in a function
# that nothing calls. The compiler finds a copy of that header without constants first.
function(hvdprof_repair_flatbuffers)
  set(header "flatbuffers/stl_emulation.h")
  set(original "${CMAKE_SOURCE_DIR}/third_party/flatbuffers/include/${header}")
  if(NOT EXISTS "${original}")
    return()
  endif()
  set(folder "${CMAKE_BINARY_DIR}/hvdprof_include")
  file(READ "${original}" text)
  string(REPLACE "pointer const data_;" "pointer data_;" text "${text}")
  string(REPLACE "const size_type count_;" "size_type count_;" text "${text}")
  file(WRITE "${folder}/${header}" "${text}")
  include_directories(BEFORE "${folder}")
endfunction()

# Most of the compiler's time goes into headers: sources that are compiled together read them once,
# which halves the time. Those with torch's headers come first, for they take longest.
function(hvdprof_compile_together)
  # Sources for GPUs have not been tried together.
  if(HAVE_CUDA OR HAVE_SUB_PROJECT_CUDA OR HAVE_ROCM)
    return()
  endif()
  foreach(library pytorch tensorflow)
    if(TARGET ${library})
      get_target_property(sources ${library} SOURCES)
      list(REVERSE sources)
      set_target_properties(${library} PROPERTIES SOURCES "${sources}" UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
    endif()
  endforeach()
  if(TARGET tensorflow)
    # TensorFlow's headers have a LOG of their own.
    set_source_files_properties(
      "${CMAKE_SOURCE_DIR}/horovod/tensorflow/mpi_ops.cc"
      TARGET_DIRECTORY tensorflow PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  # TensorFlow has a copy of Gloo that is compiled for it.
  foreach(library gloo compatible17_gloo)
    if(TARGET ${library})
      set_target_properties(${library} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
      # Its names clash with those of the other sources.
      set_source_files_properties(
        "${CMAKE_SOURCE_DIR}/third_party/${library}/gloo/allreduce_local.cc"
        TARGET_DIRECTORY ${library} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()
if(PROJECT_NAME STREQUAL "horovod" AND NOT hvdprof_deferred)
  set(hvdprof_deferred ON)
  hvdprof_repair_flatbuffers()
  cmake_language(DEFER CALL hvdprof_compile_together)
endif()
