/* A program that is linked to libjvm and creates the JVM late: `late -Djava.class.path=FOLDER SECONDS`. Prints
 * "alone", works for that many seconds of CPU time, so that it is sampled, and only then creates the JVM and calls
 * Deep's main(). */
#include <jni.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double work(double seconds)
{
    double s = 0;
    while ((double)clock() / CLOCKS_PER_SEC < seconds)
        s += 1;
    return s;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 4;
    JavaVMOption path = {.optionString = argv[1]};
    JavaVMInitArgs args = {.version = JNI_VERSION_1_8, .nOptions = 1, .options = &path};
    JavaVM *machine;
    JNIEnv *env;
    puts("alone");
    fflush(stdout);
    if (work(atof(argv[2])) < 0 || JNI_CreateJavaVM(&machine, (void **)&env, &args))
        return 1;
    jclass deep = (*env)->FindClass(env, "Deep");
    if (!deep)
        return 2;
    jobjectArray none = (*env)->NewObjectArray(env, 0, (*env)->FindClass(env, "java/lang/String"), NULL);
    (*env)->CallStaticVoidMethod(env, deep, (*env)->GetStaticMethodID(env, deep, "main", "([Ljava/lang/String;)V"), none);
    return 3;
}
