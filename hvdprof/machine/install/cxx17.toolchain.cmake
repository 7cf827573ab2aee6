# Horovod 0.28.1 asks CMake for C++14, torch since 2.1 needs C++17. CMake appends the option of the
# asked standard last, behind CMAKE_CXX_FLAGS, so only the option itself can be changed.
# CMake (3.21 and later) reads this file by the environment variable CMAKE_TOOLCHAIN_FILE.

if(NOT DEFINED CMAKE_PROJECT_INCLUDE)
  # Read again after project(): the compiler's own modules overwrite both variables below.
  set(CMAKE_PROJECT_INCLUDE "${CMAKE_CURRENT_LIST_FILE}")
endif()
set(CMAKE_CXX14_STANDARD_COMPILE_OPTION "-std=c++17")
set(CMAKE_CXX14_EXTENSION_COMPILE_OPTION "-std=gnu++17")

# From <prefix>/lib/pythonX.Y/site-packages/horovod/torch to <prefix>/lib and to torch's libraries:
# searched before the folders of the environment that built the wheel, so that it works in others.
set(CMAKE_BUILD_RPATH "$ORIGIN/../../../..;$ORIGIN/../../torch/lib")
